"""Which field of a payload is what."""

from __future__ import annotations

import datetime
import decimal
import json

import numpy as np
import pytest

from grinch import Grinch
from grinch.serve.model_backend import ModelBackend, all_text
from grinch.serve.views.fields import MAX_DEPTH, MAX_TEXT, Fields, check_named, plain
from grinch.serve.views.viewer import Viewer
from serve.looked import points


def found(*rows, **given):
    return Fields.detect(rows, **given)


def test_usual_names():
    row = {"id": 3, "Title": "Rain", "Category": "weather", "thumbnail": "a1b2"}
    assert found(row) == Fields(text="Title", image="thumbnail", label="Category")


def test_the_longest_text_where_no_name_is_usual():
    assert found({"a": "x", "b": "a longer one"}, {"a": "y", "b": "z"}).text == "b"


def test_images_by_their_endings():
    assert found({"what": "http://x/y.PNG?size=3"}, {"what": "z.jpeg"}).image == "what"
    assert found({"what": "z.pdf"}).image is None
    assert found({"image": "a picture of a cat"}).image is None


def test_images_are_files_or_have_https_addresses():
    fields = Fields(image="image")
    for image in ("a/b.png", "https://x/y.png", "HTTPS://x/y.png"):
        assert fields.image_of({"image": image}) == image
    for image in ("http://x/y.png", "HTTP://x/y.png", "ftp://x/y.png", "", None, 3):
        assert fields.image_of({"image": image}) is None


def test_what_the_user_named_counts():
    row = {"title": "Rain", "body": "It rains", "label": "a", "topic": "b"}
    assert found(row, text="body", label="topic") == Fields(text="body", label="topic")


def test_coordinates_are_no_labels():
    rows = [{"x": i / 7, "y": i / 9, "title": f"t{i}"} for i in range(40)]
    assert found(*rows).label is None
    assert found(*rows, x="x", y="y") == Fields(text="title", x="x", y="y")
    assert found(*({"y": i % 3} for i in range(40))).label == "y"


def test_nothing_is_detect_what_has_no_fields():
    assert found(5, None, [1, 2], True, 2.5) == found() == Fields()
    assert not Fields().has_text


def test_payloads_that_are_texts_themselves():
    assert found("text", None) == Fields(is_text=True)
    assert found("text").has_text


@pytest.mark.parametrize("payload", [None, 5, 2.5, True, [], ["a"], {}, {"other": 1}, {"title": None}])
def test_a_payload_without_the_field_has_no_text(payload):
    fields = Fields(text="title", image="title", label="title")
    assert (fields.text_of(payload), fields.image_of(payload), fields.label_of(payload)) == (None, None, None)


def test_texts_of_any_kind():
    fields = Fields(text="title", image="image")
    assert fields.text_of("plain") == "plain"
    assert fields.text_of({"title": 7}) == "7"
    assert fields.text_of({"title": ["a"]}) == "['a']"
    assert len(fields.text_of({"title": "x" * 99_999})) == MAX_TEXT
    assert fields.image_of({"image": 7}) is None
    assert fields.image_of({"image": ""}) is None


def test_fields_that_are_not_there_are_refused():
    with pytest.raises(ValueError, match=r"text must name a field of the payload; got 'head'. There are: title, body"):
        check_named([{"title": 1}, None, {"body": 2}], text="head", label=None)
    with pytest.raises(ValueError, match="There is none with fields"):
        check_named(["text"], image="photo")


def test_a_named_field_may_be_rare():
    model = Grinch().fit(points(900)[0])
    payload = [{"title": "t"} for _ in range(899)] + [{"title": "t", "photo": "a.png"}]
    assert Viewer(ModelBackend(model, payload=payload), image="photo").fields.image == "photo"
    with pytest.raises(ValueError, match="image must name a field of the payload; got 'picture'"):
        Viewer(ModelBackend(model, payload=payload), image="picture")


def test_x_and_y_go_together():
    source = ModelBackend(Grinch().fit(points(5)[0]), payload=[{"a": 1}] * 5)
    with pytest.raises(ValueError, match="give both of them, or none"):
        Viewer(source, x="a")


def nested(depth):
    value: object = "end"
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"a": np.int32(3), "b": np.array([1.5, np.nan])}, {"a": 3, "b": [1.5, None]}),
        (float("inf"), None),
        ({1: {"x"}}, {"1": ["x"]}),
        (datetime.date(2026, 11, 15), "2026-11-15"),
        (decimal.Decimal("1.50"), "1.50"),
        (np.datetime64("2026-11-15"), "2026-11-15"),
        (True, True),
        (b"x", "b'x'"),
        (np.str_("x"), "x"),
    ],
)
def test_payloads_become_plain(value, expected):
    assert plain(value) == expected
    json.dumps(plain(value), allow_nan=False)


def test_what_is_nested_too_deeply_is_not_shown():
    shown = json.dumps(plain(nested(5_000)))
    assert shown.count("[") == MAX_DEPTH
    assert "…" in json.loads(f'"{shown.strip("[]")[1:-1]}"')


def test_the_text_of_a_payload_is_without_its_names():
    assert all_text({"title": "Rain", "n": 3}) == "Rain\n3"
    assert [all_text(value) for value in (None, "a", 5, [1, "x"], {})] == ["", "a", "5", "[1, 'x']", ""]


@pytest.mark.parametrize("payload", [[1, 2, 3, 4, 5], [[1], [2], [3], [4], [5]], [{"label": [i]} for i in range(5)]])
def test_payloads_of_odd_types_are_shown(payload):
    viewer = Viewer(ModelBackend(Grinch().fit(points(5)[0]), payload=payload))
    members = viewer.members(viewer.scene.tree.root, order="arrival")["members"]
    assert [member["payload"] for member in members] == payload
    assert viewer.search("3")["hits"]
    assert viewer.about()["has_payload"]


@pytest.mark.parametrize("payload", [[{"label": v} for v in ("a", 1, None, [2], {"x": 1})]])
def test_labels_of_odd_types(payload):
    viewer = Viewer(ModelBackend(Grinch().fit(points(5)[0]), payload=payload))
    members = viewer.members(viewer.scene.tree.root, order="arrival")["members"]
    assert [member["label"] for member in members] == ["a", "1", None, "[2]", "{'x': 1}"]


def test_numbers_in_texts_are_no_texts():
    """Such as the columns of clusters.csv: the number of a cluster is nothing to read."""
    rows = [{"id": f"{i}", "cluster": f"{i % 3}", "label": "cat"} for i in range(30)]
    assert found(*rows) == Fields(label="label")
