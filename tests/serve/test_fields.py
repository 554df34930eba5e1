"""Which field of a payload is what."""

import datetime
import decimal
import json

import numpy as np
import pytest

from grinch import Grinch
from grinch.serve.model_backend import ModelBackend, all_text
from grinch.serve.views.fields import MAX_DEPTH, MAX_TEXT, Fields, check_named, plain
from grinch.serve.views.viewer import Viewer
from serve.looked import points, viewer_on

NAMED = {"title": "Rain", "body": "It rains", "label": "a", "topic": "b"}
PLACED = [{"x": i / 7, "y": i / 9, "title": f"t{i}"} for i in range(40)]
CLUSTERED = [{"id": f"{i}", "cluster": f"{i % 3}", "label": "cat"} for i in range(30)]
# Rows, what the user named, and the fields that are found.
DETECTED = {
    "usual names": (
        [{"id": 3, "Title": "Rain", "Category": "weather", "thumbnail": "a1b2"}],
        {},
        Fields(text="Title", image="thumbnail", label="Category"),
    ),
    "the longest text": ([{"a": "x", "b": "a longer one"}, {"a": "y", "b": "z"}], {}, Fields(text="b")),
    "images by their endings": ([{"what": "http://x/y.PNG?size=3"}, {"what": "z.jpeg"}], {}, Fields(image="what")),
    "another ending": ([{"what": "z.pdf"}], {}, Fields(text="what")),
    "no image": ([{"image": "a picture of a cat"}], {}, Fields(text="image")),
    "what is named counts": ([NAMED], {"text": "body", "label": "topic"}, Fields(text="body", label="topic")),
    "coordinates are no labels": (PLACED, {}, Fields(text="title")),
    "named coordinates": (PLACED, {"x": "x", "y": "y"}, Fields(text="title", x="x", y="y")),
    "few numbers are labels": ([{"y": i % 3} for i in range(40)], {}, Fields(label="y")),
    # Such as the columns of clusters.csv: the number of a cluster is nothing to read.
    "numbers are no texts": (CLUSTERED, {}, Fields(label="label")),
    "no fields": ([5, None, [1, 2], True, 2.5], {}, Fields()),
    "nothing": ([], {}, Fields()),
    "texts": (["text", None], {}, Fields(is_text=True)),
}


@pytest.mark.parametrize("case", DETECTED)
def test_which_field_is_what(case):
    rows, given, expected = DETECTED[case]
    assert Fields.detect(rows, **given) == expected
    assert expected.has_text == (case == "texts" or expected.text is not None)


def test_what_the_fields_of_a_payload_hold():
    fields = Fields(text="title", image="image", label="title")
    for payload in (None, 5, 2.5, True, [], ["a"], {}, {"other": 1}, {"title": None}):
        assert (fields.text_of(payload), fields.image_of(payload), fields.label_of(payload)) == (None, None, None)
    assert [fields.text_of(each) for each in ("plain", {"title": 7}, {"title": ["a"]})] == ["plain", "7", "['a']"]
    assert len(fields.text_of({"title": "x" * 99_999})) == MAX_TEXT
    # Images are files or have https addresses.
    for image in ("a/b.png", "https://x/y.png", "HTTPS://x/y.png"):
        assert fields.image_of({"image": image}) == image
    for image in ("http://x/y.png", "HTTP://x/y.png", "ftp://x/y.png", "", None, 3):
        assert fields.image_of({"image": image}) is None


def test_fields_that_are_not_there_are_refused():
    with pytest.raises(ValueError, match=r"text must name a field of the payload; got 'head'. There are: title, body"):
        check_named([{"title": 1}, None, {"body": 2}], text="head", label=None)
    with pytest.raises(ValueError, match="There is none with fields"):
        check_named(["text"], image="photo")


def test_a_named_field_may_be_rare():
    model = Grinch().fit(points(900)[0])
    source = ModelBackend(model, payload=[{"title": "t"} for _ in range(899)] + [{"title": "t", "photo": "a.png"}])
    assert Viewer(source, image="photo").fields.image == "photo"
    with pytest.raises(ValueError, match="image must name a field of the payload; got 'picture'"):
        Viewer(source, image="picture")
    with pytest.raises(ValueError, match="give both of them, or none"):
        Viewer(source, x="title")


def test_payloads_become_plain():
    for value, expected in (
        ({"a": np.int32(3), "b": np.array([1.5, np.nan])}, {"a": 3, "b": [1.5, None]}),
        *((float("inf"), None), ({1: {"x"}}, {"1": ["x"]}), (True, True), (b"x", "b'x'"), (np.str_("x"), "x")),
        *((day, "2026-11-15") for day in (datetime.date(2026, 11, 15), np.datetime64("2026-11-15"))),
        (decimal.Decimal("1.50"), "1.50"),
    ):
        assert plain(value) == expected
        json.dumps(plain(value), allow_nan=False)


def test_what_is_nested_too_deeply_is_not_shown():
    value = "end"
    for _ in range(5_000):
        value = [value]
    shown = json.dumps(plain(value))
    assert shown.count("[") == MAX_DEPTH
    assert "…" in json.loads(f'"{shown.strip("[]")[1:-1]}"')


def test_the_text_of_a_payload_is_without_its_names():
    assert all_text({"title": "Rain", "n": 3}) == "Rain\n3"
    assert [all_text(value) for value in (None, "a", 5, [1, "x"], {})] == ["", "a", "5", "[1, 'x']", ""]


ODD_LABELS = [{"label": label} for label in ("a", 1, None, [2], {"x": 1})]


@pytest.mark.parametrize("payload", [[1, 2, 3, 4, 5], [[1], [2], [3], [4], [5]], ODD_LABELS])
def test_payloads_of_odd_types_are_shown(payload):
    viewer = viewer_on(points(5)[0], payload=payload)
    members = viewer.members(viewer.scene.tree.root, order="arrival")["members"]
    assert [member["payload"] for member in members] == payload
    assert viewer.search("1")["hits"]
    assert viewer.about()["has_payload"]
    if payload is ODD_LABELS:
        assert [member["label"] for member in members] == ["a", "1", None, "[2]", "{'x': 1}"]
