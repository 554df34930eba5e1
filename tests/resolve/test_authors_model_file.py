"""Model files: what is written is read back, and nothing that somebody else wrote can do harm."""

import os
import tracemalloc

import numpy as np
import pytest

import commands
from grinch.cli.coref import write_records
from grinch.resolve.authors import FEATURES, Model, Record, Statistics, make_records
from grinch.resolve.authors import model as model_file
from grinch.resolve.authors.predictors import Logistic, Trees
from grinch.saving import container
from hostile_files import with_header


def logistic():
    return Model(
        Logistic(np.array([1.0, -2.0]), np.array([0.5])),
        ("near", "far"),
        0.4,
        (1.5, -0.25),
        report={"n": 3},
        columns={"name": "creator"},
    )


def boosting():
    nodes = {"feature": [0, -1, 1, -1, -1], "left": [1, 0, 3, 0, 0], "right": [2, 0, 4, 0, 0], "roots": [0, 2]}
    values = {"cut": [0.5, 0.0, 2.0, 0.0, 0.0], "value": [0.0, -1.0, 0.0, 1.0, 3.0], "base": [0.1], "n_features": [2]}
    return Model(Trees(**{name: np.array(part) for name, part in (nodes | values).items()}), ("near", "far"))


def of_records():
    statistics = Statistics.of([Record("1", "A Lee", title="deep trees"), Record("2", "A Lee", title="soup")])
    return Model(Logistic(np.zeros(len(FEATURES)), np.zeros(1)), FEATURES, statistics=statistics)


@pytest.mark.parametrize("make", [logistic, boosting, of_records])
def test_a_model_is_read_back_as_it_was_written(tmp_path, make):
    model = make()
    path = tmp_path / "model"
    model.save(path)
    model.save(path)
    again = Model.load(path)
    rows = np.random.default_rng(0).normal(size=(20, len(model.features)))
    np.testing.assert_array_equal(again.score(rows), model.score(rows))
    for part in ("features", "threshold", "calibration", "report", "columns"):
        assert getattr(again, part) == getattr(model, part), part
    for part in ("counts", "topics"):
        np.testing.assert_array_equal(getattr(again.statistics, part, None), getattr(model.statistics, part, None))
    assert [each.name for each in tmp_path.iterdir()] == ["model"]


def test_trees_walk_as_they_are_drawn():
    margins = boosting().predictor.margins(np.array([[0.0, 9.0], [1.0, 1.0], [1.0, 9.0]]))
    np.testing.assert_allclose(margins, [0.1 - 1 + 3, 0.1 + 1 + 1, 0.1 + 3 + 3])


# Attacks --------------------------------------------------------------------------------------------------------------


def rewritten(source, target, arrays=None, **fields):
    """Write a copy of a model file with other fields in its header and other arrays."""
    file = container.read(source)
    container.write(target, file.kind, file.header, {**file.arrays, **(arrays or {})})
    with_header(target, lambda head: head["header"].update(fields))


THRESHOLDS = (float("nan"), float("inf"), 2, "0.5", True, None)
CALIBRATIONS = ([1.0, float("-inf")], [1.0], [10**400, 0])
FIELDS = {
    **{
        f"threshold {value}": ({"threshold": value}, f"threshold must be a number from 0 to 1; it is {value!r}")
        for value in THRESHOLDS
    },
    **{
        f"calibration {i}": ({"calibration": value}, "calibration must be two finite numbers")
        for i, value in enumerate(CALIBRATIONS)
    },
    "kind": ({"kind": "oracle"}, "kind must be one of 'logistic', 'boosting'; it is 'oracle'"),
    "kind list": ({"kind": ["logistic"]}, "kind must be one of"),
    "other kind": ({"kind": "boosting"}, "'predictor/base' is missing"),
    "features": ({"features": ["one"]}, "features must name 2 features; it names 1"),
    "features numbers": ({"features": [1, 2]}, "features must be a list of names"),
    "features text": ({"features": "ab"}, "features must be a list of names"),
    "report": ({"report": []}, "report must be an object"),
    "columns of no field": ({"columns": {"nam": "x"}}, "columns must be an object of columns by field"),
    "columns that are no text": ({"columns": {"name": 1}}, "columns must be an object of columns by field"),
    "records": ({"n_records": -1}, "n_records must be a whole number of at least 0; it is -1"),
    "records huge": ({"n_records": 10**30}, "n_records must be a whole number of at least 0"),
    "records without counts": ({"n_records": 3}, "'statistics/counts' is missing"),
}
WEIGHTS = "predictor/weights"
ARRAYS = {
    "nan": ({WEIGHTS: np.array([1.0, np.nan])}, "predictor weights must be a list of finite numbers; .* with nan"),
    "infinite": ({WEIGHTS: np.array([np.inf, 1.0])}, "predictor weights must be a list of finite numbers; .* with inf"),
    **{
        f"weights {i}": ({WEIGHTS: wrong}, "predictor weights must be a list")
        for i, wrong in enumerate((np.zeros((1, 1, 2)), np.zeros((1, 2)), np.zeros(2, bool)))
    },
    "intercepts": ({"predictor/intercept": np.ones(2)}, "predictor intercept must be one number; got 2"),
    "unexpected": ({"predictor/more": np.ones(1)}, "'predictor/more' does not belong in a model"),
    "outside": ({"../../etc/x": np.ones(1)}, r"'\.\./\.\./etc/x' does not belong in a model"),
}
TREES = {
    "child outside": ({"left": [1, 0, 99, 0, 0]}, "predictor left must be a later node than its parent, up to 4"),
    "child negative": ({"right": [-7, 0, 4, 0, 0]}, "predictor right must be a later node than its parent"),
    "cycle": ({"left": [1, 0, 0, 0, 0]}, "predictor left must be a later node than its parent"),
    "feature": ({"feature": [0, -1, 2, -1, -1]}, "predictor feature must be from -1 .* to 1; got -1 to 2"),
    "feature negative": ({"feature": [0, -1, -5, -1, -1]}, "predictor feature must be from -1"),
    "root": ({"roots": [0, 5]}, "predictor roots must be nodes from 0 to 4; got 0 to 5"),
    "root negative": ({"roots": [-1]}, "predictor roots must be nodes from 0 to 4"),
    "lengths": ({"value": [0.0, 1.0]}, "predictor value must have one entry for each of 5 nodes; got 2"),
    "cut": ({"cut": [np.nan, 0.0, 2.0, 0.0, 0.0]}, "predictor cut must be a list of finite numbers"),
    "value": ({"value": [0.0, -np.inf, 0.0, 1.0, 3.0]}, "predictor value must be a list of finite numbers"),
    "wide": ({"left": [2**40, 0, 3, 0, 0]}, "predictor left must be a list of whole numbers"),
    "fractions": ({"left": [1.5, 0, 3, 0, 0]}, "predictor left must be a list of whole numbers"),
    "base": ({"base": [0.1, 0.2]}, "predictor base must be one number; got 2"),
    "no features": ({"n_features": np.zeros(0, int)}, "predictor n_features must be one number; got 0"),
}
COUNTS, TOPICS = "statistics/counts", "statistics/topics"
STATISTICS = {
    "few": ({COUNTS: np.zeros(8, np.int32)}, "statistics/counts must be 262,144 whole numbers, none below 0"),
    "below": ({COUNTS: np.full(1 << 18, -1, np.int32)}, "statistics/counts must be .* none below 0"),
    "fractions": ({COUNTS: np.zeros(1 << 18)}, "statistics/counts must be 262,144 whole numbers"),
    "nan": ({TOPICS: np.full((1 << 14, 2), np.nan, np.float32)}, "statistics/topics must be 16,384 rows of"),
    "rows": ({TOPICS: np.zeros((3, 2), np.float32)}, "statistics/topics must be 16,384 rows of"),
    "flat": ({TOPICS: np.zeros(1 << 14, np.float32)}, "statistics/topics must be 16,384 rows of"),
}


def refused(path, message):
    """The file is refused in one line that names it, and in little memory."""
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=message) as caught:
            Model.load(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert str(caught.value).startswith(f"'{path}' ")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < len(str(path)) + 400
    assert peak < 100e6


# By part of a file: a model that has it, what turns a case into arguments of ``rewritten``, and the cases.
PARTS = {
    "field": (logistic, lambda fields: fields, FIELDS),
    "array": (logistic, lambda arrays: {"arrays": arrays}, ARRAYS),
    "trees": (boosting, lambda parts: {"arrays": {f"predictor/{k}": np.asarray(v) for k, v in parts.items()}}, TREES),
    "statistics": (of_records, lambda arrays: {"arrays": arrays}, STATISTICS),
}


@pytest.mark.parametrize(("part", "case"), [(part, case) for part in PARTS for case in PARTS[part][2]])
def test_every_part_of_a_file_is_checked(tmp_path, part, case):
    make, changes, cases = PARTS[part]
    changed, message = cases[case]
    make().save(tmp_path / "model")
    rewritten(tmp_path / "model", tmp_path / "other", **changes(changed))
    refused(tmp_path / "other", message)


def test_fields_that_are_missing_are_named(tmp_path):
    for field in ("kind", "features", "threshold", "calibration", "report"):
        logistic().save(tmp_path / "model")
        with_header(tmp_path / "model", lambda head, field=field: head["header"].pop(field) and None)
        refused(tmp_path / "model", f"{field} must be")


def test_other_features_are_named(tmp_path):
    of_records().save(tmp_path / "model")
    rewritten(tmp_path / "model", tmp_path / "other", features=["x\n" * 500, *FEATURES[1:]])
    refused(tmp_path / "other", f"was trained on {len(FEATURES)} features, and {len(FEATURES)} are computed here")
    with pytest.raises(ValueError, match="they come in another order"):
        Model.load(tmp_path / "model", features=FEATURES[::-1])


def test_a_damaged_byte_anywhere_is_refused_or_does_not_matter(tmp_path):
    path, other = tmp_path / "model", tmp_path / "other"
    logistic().save(path)
    whole, rows = path.read_bytes(), np.eye(2)
    scores = Model.load(path).score(rows)
    for place in range(0, len(whole), 3):
        other.write_bytes(whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :])
        try:
            np.testing.assert_array_equal(Model.load(other).score(rows), scores)
        except ValueError as error:
            assert str(error).startswith(f"'{other}' is not a complete model file: ")  # noqa: PT017


def test_a_file_that_is_far_too_large_is_not_read(tmp_path):
    logistic().save(tmp_path / "model")
    os.truncate(tmp_path / "model", 1 << 40)
    refused(tmp_path / "model", "the file must have at most 33,554,432 bytes; it has 1,099,511,627,776")
    # The largest array of a trained model, with room for several times as many topics.
    statistics = of_records().statistics
    assert 8 * max(statistics.topics.nbytes, statistics.counts.nbytes) <= model_file.MAX_BYTES
    for path, error in ((tmp_path / "none", FileNotFoundError), (tmp_path, IsADirectoryError)):
        with pytest.raises(error):
            Model.load(path)


@pytest.mark.parametrize("command", ["cluster", "evaluate"])
def test_the_commands_refuse_a_bad_model_in_one_line(tmp_path, command):
    write_records(make_records(6, 2), tmp_path / "r.jsonl")
    of_records().save(tmp_path / "model")
    rewritten(tmp_path / "model", tmp_path / "bad", threshold=float("nan"))
    done = commands.run("coref", command, "r.jsonl", "-m", "bad", cwd=tmp_path, expect=2)
    said = "'bad' is not a complete model file: threshold must be a number from 0 to 1; it is nan."
    assert done.stderr == f"error: {said} Copy it again, or train the model again\n"
    assert sorted(os.listdir(tmp_path)) == ["bad", "model", "r.jsonl"]
