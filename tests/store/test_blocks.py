"""Checksums of rows by the block of a megabyte, and the thread that compares them."""

import os
import threading
import zlib
from contextlib import closing

import numpy as np
import pytest

import grinch
from grinch.saving import container
from grinch.store import rows, snapshots
from grinch.store import store as store_module
from grinch.store.damage import DamagedStore
from grinch.store.rows import BlockChecksums, RowFile, SparseRowFile
from grinch.store.snapshots import Verification
from refusals import refused
from sparse_data import sparse_groups
from store.made import flip, snapshot_of
from threads import SECONDS, Call, wait_until

MIB = 2**20


def sums_of(content, size=MIB):
    return [zlib.crc32(content[start : start + size]) for start in range(0, len(content), size)]


def test_there_is_a_checksum_for_each_megabyte(tmp_path, rng):
    """Rows that end in the middle of a block, and one that is larger than a block."""
    rows = rng.normal(size=(7, 90_000)).astype(np.float32)
    file = RowFile(tmp_path / "rows", rows.dtype, rows.shape[1])
    for start, stop in ((0, 1), (1, 5), (5, 7)):
        file.append(start, rows[start:stop])
        assert file.blocks.length == start * file.row_bytes  # not before it is committed
        file.blocks.commit()
        assert file.blocks.sums.tolist() == sums_of(rows[:stop].tobytes())
    assert (tmp_path / "rows").read_bytes() == rows.tobytes()
    assert len(file.blocks.sums) == 3
    assert len(file.blocks.unverified()) == 0
    file.close()


@pytest.mark.parametrize("seed", range(10))
def test_bytes_come_in_pieces_of_any_size(monkeypatch, seed):
    monkeypatch.setattr(rows, "CHUNK", 64)
    rng = np.random.default_rng(seed)
    content, blocks = b"", BlockChecksums()
    for _ in range(30):
        # Some are several in one change; some changes fail.
        pieces = [rng.bytes(rng.choice([0, 1, 5, 63, 64, 65, 128, 200])) for _ in range(rng.integers(1, 4))]
        at = len(content)
        for piece in pieces:
            blocks.prepare(at, piece)
            at += len(piece)
        if rng.random() < 0.3:
            blocks.rollback()
        else:
            blocks.commit()
            content += b"".join(pieces)
        if rng.random() < 0.2:
            blocks = BlockChecksums(blocks.sums, blocks.length)
            assert blocks.unverified().tolist() == list(range(len(blocks.sums)))
            blocks.verify(np.frombuffer(content, np.uint8), np.arange(len(blocks.sums)))
        assert (blocks.length, blocks.sums.tolist()) == (len(content), sums_of(content, 64))
        assert len(blocks.unverified()) == 0


def test_a_change_begins_at_the_end_or_where_it_began():
    """As where an insert fails and nobody said so."""
    blocks = BlockChecksums()
    blocks.prepare(0, b"abc")
    refused("must be added at 3; got 4", blocks.prepare, 4, b"d")
    blocks.commit()
    blocks.prepare(3, b"lost")
    blocks.prepare(3, b"found")
    blocks.commit()
    assert blocks.sums.tolist() == sums_of(b"abcfound")
    refused("2 checksums for 3 bytes", BlockChecksums, [1, 2], 3)


@pytest.fixture
def reopened(tmp_path, rng):
    """A file of three blocks and a half, as a later process opens it, and its rows; four rows are a block."""
    rows = rng.normal(size=(14, MIB // 16)).astype(np.float32)
    known = tmp_path / "rows", rows.dtype, rows.shape[1]
    with closing(RowFile(*known)) as file:
        file.append(0, rows)
        file.blocks.commit()
    return RowFile(*known, BlockChecksums(file.blocks.sums, file.blocks.length)), rows


@pytest.mark.parametrize("block", range(4))
def test_a_flipped_byte_is_found_where_its_block_is_read(reopened, rng, block):
    file, rows = reopened
    flip(file.path, block * MIB + int(rng.integers(MIB // 2)))
    for number in range(14):
        if number // 4 == block:
            refused(f"the checksum of the block at byte {block * MIB:,} is wrong", file.at, np.array([number]))
        else:
            np.testing.assert_array_equal(file.at(np.array([number])), rows[[number]])
    assert file.blocks.unverified().tolist() == [block]
    if block == 3:
        # In the last block it is found before rows come behind it.
        refused("block at byte 3,145,728", file.append, 14, rows[:1])
        assert file.path.stat().st_size == rows.nbytes


def test_each_block_is_compared_once_and_rows_come_behind_it(reopened):
    file, rows = reopened
    assert file.blocks.unverified().tolist() == [0, 1, 2, 3]
    np.testing.assert_array_equal(file.at(np.array([13, 5])), rows[[13, 5]])
    assert file.blocks.unverified().tolist() == [0, 2]
    file.verify_blocks(np.array([2]))
    assert file.blocks.unverified().tolist() == [0]
    file.append(14, rows[:4])
    file.blocks.commit()
    whole = np.concatenate([rows, rows[:4]])
    assert file.blocks.sums.tolist() == sums_of(whole.tobytes())
    assert file.blocks.unverified().tolist() == [0]
    np.testing.assert_array_equal(file.at(np.arange(18)), whole)


def test_rows_come_to_a_file_that_was_opened_again(reopened):
    file, rows = reopened
    file.append(14, rows[:4])
    assert file.blocks.unverified().tolist() == [0, 1, 2]


def test_a_file_that_is_cut_off_is_noticed(reopened):
    file, rows = reopened
    os.truncate(file.path, rows.nbytes - 1)
    refused("it must hold 14 rows of 262144 bytes, and has 13", file.at, np.array([13]))


def test_a_thread_that_compares_a_block_while_rows_come_behind_it_finds_no_damage(reopened, tmp_path):
    """The thread has seen that the last block is to be compared, and rows come before it does."""
    file, rows = reopened
    fixed = file.fixed(14)
    lock = file.blocks._lock

    class Later:
        is_first = True

        def __enter__(self):
            if Later.is_first:
                Later.is_first = False
                file.append(14, rows[:1])
                file.blocks.commit()
            lock.acquire()

        def __exit__(self, *error):
            lock.release()

    file.blocks._lock = Later()
    fixed.verify_blocks(np.array([3]))
    assert not Later.is_first
    assert file.blocks.sums.tolist() == sums_of(np.concatenate([rows, rows[:1]]).tobytes())


def test_sparse_rows_have_checksums_in_both_files(tmp_path):
    rows = sparse_groups(300, dtype=np.float32)
    file = SparseRowFile(tmp_path / "rows", rows.dtype, rows.shape[1])
    for start in (0, 100, 200):
        file.append(start, rows[start : start + 100])
        for part in (file.entries, file.ends):
            part.blocks.commit()
    for part in (file.entries, file.ends):
        assert part.blocks.sums.tolist() == sums_of(part.path.read_bytes())
    assert (file.at(np.arange(300)) != rows).nnz == 0
    file.close()


# In the background ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [DamagedStore("rows are damaged"), OSError("cannot be read")])
def test_what_is_found_is_raised_whenever_it_is_asked_for(error):
    ran = []

    def fail():
        raise error

    verification = Verification([lambda: ran.append(1), fail, lambda: ran.append(2)])
    verification.wait()
    assert verification.is_done
    assert ran == [1]
    for _ in range(2):
        refused(str(error), verification.check, error=type(error))
    verification.stop()


def test_it_ends_before_the_next_block():
    begun, go_on, ran = threading.Event(), threading.Event(), []

    def first():
        begun.set()
        assert go_on.wait(SECONDS)

    verification = Verification([first, lambda: ran.append(2)])
    assert begun.wait(SECONDS)
    assert not verification.is_done
    verification.check()
    stop = Call(verification.stop)
    wait_until(verification._is_stopped.is_set)
    go_on.set()
    stop.result()
    assert verification.is_done
    assert ran == []


def test_predict_verifies_the_rows_of_the_nearest_points_before_it_answers(tmp_path, rng, monkeypatch):
    X = rng.normal(size=(200, 4)).astype(np.float32)
    with grinch.open(tmp_path / "store") as store:
        store.insert(X)
        store.snapshot()
    monkeypatch.setattr(snapshots, "VERIFIED_BYTES", 0)
    monkeypatch.setattr(store_module, "Verification", NeverDone)
    path = snapshot_of(tmp_path / "store")
    rows = container.read(path, snapshots.KIND).arrays[store_module.POINTS]
    flip(path, path.read_bytes().index(rows[:200].tobytes()) + 1)
    with grinch.open(tmp_path / "store") as store, pytest.raises(DamagedStore, match=path.name):
        store.predict(X[:1])


class NeverDone(Verification):
    """Verification that has not come to any block yet."""

    is_done = False

    def __init__(self, blocks):
        super().__init__([])
