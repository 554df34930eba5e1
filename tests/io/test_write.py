"""Files that are replaced whole, or not at all."""

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


FULL = OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("error", [FULL, KeyboardInterrupt()])
@pytest.mark.parametrize("is_late", [False, True])
def test_a_failed_write_leaves_what_was_there_and_nothing_else(tmp_path, error, is_late, monkeypatch):
    """Halfway, or only when bytes are forced out."""
    path = tmp_path / "results.csv"
    path.write_text("old")

    def fail(_=None):
        raise error

    def half_written():
        yield "new"
        fail()

    if is_late:
        monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(type(error)), replacing(path) as out:
        out.writelines(["new"] if is_late else half_written())
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["results.csv"]


def test_numpy_on_a_full_disk_says_so(tmp_path):
    with pytest.raises(OSError, match="No space left on device") as caught, replacing(tmp_path / "a.npy", "wb"):
        raise OSError("384000 requested and 310240 written")
    assert caught.value.errno == errno.ENOSPC
    assert caught.value.filename == str(tmp_path / "a.npy")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(sys.platform == "win32", reason="permissions and links of POSIX")
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
