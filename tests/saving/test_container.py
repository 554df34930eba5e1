"""The file format: what is written is read, and what was damaged or made up is refused before it is used."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of

from grinch.errors import SavedModelError
from grinch.saving.container import BLOCK, PAGE, Arrays, LaterFormat, OldFormat, read, write
from hostile_files import with_header
from refusals import refused

DTYPES = ["<i1", "<i2", "<i4", "<i8", "<u1", "<u2", "<u4", "<u8", "<f2", "<f4", "<f8", "?", ">f8", ">i4"]
NAMES = st.text(max_size=8)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@st.composite
def some_arrays(draw: Any) -> Any:
    dtype = np.dtype(draw(st.sampled_from(DTYPES)))
    shape = draw(arrays_of.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=5))
    return draw(arrays_of.arrays(dtype, shape))


@given(st.dictionaries(NAMES, some_arrays(), max_size=4), st.dictionaries(st.text(), JSON, max_size=3))
def test_all_that_is_written_is_read(tmp_path_factory: Any, given_arrays: Any, header: Any) -> None:
    path = tmp_path_factory.mktemp("files") / "file.grinch"
    write(path, "kind", header, given_arrays)
    found = read(path, "kind")
    found.verify()
    assert (found.kind, found.header, list(found.arrays)) == ("kind", header, list(given_arrays))
    for name, array in given_arrays.items():
        assert found.arrays[name].shape == array.shape
        assert found.arrays[name].dtype == array.dtype.newbyteorder("<")
        np.testing.assert_array_equal(found.arrays[name], array)
        assert found.arrays[name].flags.writeable or not array.size
    assert [each.name for each in path.parent.iterdir()] == [path.name]


def test_arrays_are_on_pages_and_private(tmp_path: Path) -> None:
    path, values = tmp_path / "file", np.arange(3 * BLOCK // 8 + 5)
    write(path, "kind", {}, {"a": np.ones(3, np.float32), "b": values, "c": values[::-2], "d": values.T[:10]})
    before, found = path.read_bytes(), read(path)
    assert [place.offset % PAGE for place in found.places.values()] == [64, 0, 0, found.places["d"].offset % PAGE]
    assert found.places["d"].offset % 64 == 0
    assert [len(sums) for sums in found.block_checksums.values()] == [1, 4, 2, 1]
    np.testing.assert_array_equal(found.arrays["c"], values[::-2])
    found.arrays["b"][:] = 7
    found.verify()
    assert path.read_bytes() == before


def test_zeros_take_no_room_on_disk(tmp_path: Path) -> None:
    path, values = tmp_path / "file", np.zeros(64 * BLOCK // 8)
    values[-1] = 1
    write(path, "kind", {}, {"a": values, "b": np.zeros(BLOCK, np.uint8)})
    assert path.stat().st_size > 65 * BLOCK
    found = read(path)
    assert found.block_checksums["a"][:63] == [None] * 63
    assert found.block_checksums["b"] == [None]
    if path.stat().st_blocks:
        assert path.stat().st_blocks * 512 < 3 * BLOCK
    found.verify()
    np.testing.assert_array_equal(found.arrays["a"], values)


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "small"
    arrays: Arrays = {"a": np.arange(10), "zeros": np.zeros(7), "empty": np.zeros((0, 3))}
    write(path, "kind", {"some": ["header"]}, {**arrays, "b": np.ones((2, 3), np.float32)})
    return path


def test_every_flipped_byte_is_found(small: Path) -> None:
    content, rng = small.read_bytes(), np.random.default_rng(0)
    # All that is not one of the many zeros between arrays, and some of these.
    places = {i for i, byte in enumerate(content) if byte} | set(rng.integers(0, len(content), 300).tolist())
    for at in sorted(places):
        small.write_bytes(content[:at] + bytes([content[at] ^ 1 << int(rng.integers(8))]) + content[at + 1 :])
        with pytest.raises(SavedModelError, match="small"):
            read(small, "kind").verify()
    small.write_bytes(content)
    read(small, "kind").verify()


def test_a_wrong_block_is_found_by_itself(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write(path, "kind", {}, {"a": np.ones(3 * BLOCK, np.uint8), "b": np.ones(5)})
    with open(path, "r+b") as file:
        file.seek(PAGE + 2 * BLOCK + 17)
        file.write(b"\x00")
    found = read(path)
    found.verify(["b"])
    found.verify_block("a", 1)
    for check in (lambda: found.verify_block("a", 2), lambda: found.verify(["a"]), found.verify):
        refused("'a' is wrong at byte 2,097,152", check, error=SavedModelError)


def test_a_file_that_was_replaced_is_verified_as_it_was(small: Path) -> None:
    found = read(small)
    write(small, "kind", {}, {"a": np.zeros(10)})
    found.verify()
    assert found.arrays["a"].tolist() == list(range(10))


def test_truncated_files_are_refused(small: Path) -> None:
    content = small.read_bytes()
    for share in (0.0, 0.0003, 0.3, 0.9, 0.999):
        small.write_bytes(content[: int(len(content) * share)])
        refused("small", read, small, error=SavedModelError)


def array_set(index: int, *values: Any) -> Any:
    """Yield changes of an entry of an array's header: 0 is its type, 1 its shape, and 2 the checksums."""
    for value in values:
        yield lambda head, value=value: head["arrays"]["a"].__setitem__(index, value)


HEADERS = [
    *array_set(1, [2**47], [2**62, 2**62], [-1], [-1, -10], [10.0], [True] * 10, ["10"], [1] * 40, [11], [9, 100], 10),
    *array_set(0, "|O8", "O", ">i8", "<V8", "<U2", "<i8,<i8", "<i3", 8, None),
    *array_set(2, [], [1, 2], ["1"], None),
    lambda head: head["arrays"].update(a=None),
    lambda head: head["arrays"].update(a=[]),
    lambda head: head["arrays"].update(more=["<f8", [10**6], [None] * 8]),
    lambda head: head["arrays"].pop("b"),
    lambda head: head.update(arrays=[]),
    lambda head: head.update(header=None),
    lambda head: head.update(kind=3),
    lambda head: head.pop("kind"),
    lambda head: [],
    *(b"", b"{", b"\xff\xfe", b"[" * 100_000, b'{"a":' * 100_000, b"1" * 10_000),
]


@pytest.mark.parametrize("change", HEADERS)
def test_made_up_headers_are_refused(small: Path, change: Any) -> None:
    with_header(small, change)
    with pytest.raises(SavedModelError, match="small is damaged"):
        read(small).verify()


def test_other_kinds_formats_and_files_are_refused_by_name(small: Path, tmp_path: Path) -> None:
    refused("small holds 'kind', not 'model'", read, small, "model", error=SavedModelError)
    with_header(small, lambda head: None, 99)
    refused(r"small is of format 99.*Upgrade", read, small, error=LaterFormat)
    for start in (b"\x8agrinch\n", b"grinch\x00\x01", b"PK\x03\x04" + bytes(26) + b"about.npy"):
        (tmp_path / "old.grinch").write_bytes(start + bytes(5000))
        refused(r"grinch convert \S*old.grinch NEW", read, tmp_path / "old.grinch", error=OldFormat)
    for content in (b"", b"\x8aGRINCH", b"something else that is longer than eight bytes"):
        (tmp_path / "other").write_bytes(content)
        refused("other", read, tmp_path / "other", error=SavedModelError)
    refused("nothing", read, tmp_path / "nothing", error=FileNotFoundError)


def test_only_numbers_are_written(tmp_path: Path) -> None:
    for array in (np.array(["text"]), np.array([None]), np.array([1j])):
        refused("'a' must hold numbers or flags", write, tmp_path / "file", "kind", {}, {"b": np.ones(3), "a": array})
    assert not list(tmp_path.iterdir())


def test_a_failed_write_leaves_what_was_there(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = small.read_bytes()

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("grinch.saving.disk.write_at", full)
    refused("small", write, small, "kind", {}, {"a": np.ones(3)}, error=OSError)
    assert small.read_bytes() == before
    assert len(list(small.parent.iterdir())) == 1
