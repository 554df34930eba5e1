"""Files that are replaced whole, or not at all."""

from __future__ import annotations

import errno
import os
import sys

import pytest

from grinch.io.write import harmless, replacing


def test_the_old_file_stays_until_the_new_one_is_complete(tmp_path):
    path = tmp_path / "results.csv"
    path.write_text("old")
    with replacing(path) as out:
        out.write("é\n")
        out.flush()
        assert path.read_text() == "old"
    assert path.read_bytes() == "é\n".encode()
    assert os.listdir(tmp_path) == ["results.csv"]


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()])
def test_a_failed_write_leaves_what_was_there_and_nothing_else(tmp_path, error):
    path = tmp_path / "results.csv"
    path.write_text("old")

    def half_written():
        yield "new"
        raise error

    with pytest.raises(type(error)), replacing(path) as out:
        out.writelines(half_written())
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["results.csv"]


def test_a_disk_that_is_full_only_when_bytes_are_forced_out(tmp_path, monkeypatch):
    path = tmp_path / "results.npy"
    path.write_bytes(b"old")

    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"), replacing(path, "wb") as out:
        out.write(b"new")
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["results.npy"]


@pytest.mark.skipif(sys.platform == "win32", reason="permissions and links of POSIX")
def test_numpy_on_a_full_disk_says_so(tmp_path):
    with pytest.raises(OSError, match="No space left on device") as caught, replacing(tmp_path / "a.npy", "wb"):
        raise OSError("384000 requested and 310240 written")
    assert caught.value.errno == errno.ENOSPC
    assert caught.value.filename == str(tmp_path / "a.npy")
    assert list(tmp_path.iterdir()) == []


def test_permissions_and_links_stay_as_they_were(tmp_path):
    mask = os.umask(0o022)
    try:
        with replacing(tmp_path / "new") as out:
            out.write("1")
    finally:
        os.umask(mask)
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o644
    (tmp_path / "new").chmod(0o640)
    (tmp_path / "link").symlink_to("new")
    with replacing(tmp_path / "link") as out:
        out.write("2")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "new").read_text() == "2"
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o640


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_devices_are_written_to_and_not_replaced():
    with replacing(os.devnull) as out:
        out.write("gone")
    with pytest.raises(OSError, match="No space left"), replacing("/dev/full") as out:
        out.write("no room")


def test_text_that_spreadsheets_would_run_is_quoted():
    runs = ["=cmd|' /C calc'!A0", "+1+2", "-2+3", "@SUM(A1)", "\t=1", "\r=1", "\t1"]
    assert harmless(runs) == ["'" + text for text in runs]
    stays = ["-1", "+2.5e3", -1, -0.5, None, "", "plain", "a=b", "1-2"]
    assert harmless(stays) == stays
