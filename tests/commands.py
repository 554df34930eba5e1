"""Commands as a user types them, run in this process: starting another takes seconds, most of them for imports."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from typing import NamedTuple
from unittest import mock

from grinch.cli import main


class Done(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


def run_command(*arguments, cwd, given="", columns=100, main=main) -> Done:
    """Run ``grinch`` with these arguments in a folder, with ``given`` on the standard input."""
    out, err, stdin = io.StringIO(), io.StringIO(), io.TextIOWrapper(io.BytesIO(given.encode()))
    with (
        contextlib.chdir(cwd),
        mock.patch.object(sys, "argv", ["grinch", *map(str, arguments)]),
        mock.patch.object(sys, "stdin", stdin),
        mock.patch.dict(os.environ, COLUMNS=str(columns), NO_COLOR="1"),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            code = main()
        except SystemExit as ended:
            code = ended.code
    return Done(code or 0, out.getvalue(), err.getvalue())


def run(*arguments, expect=0, **more) -> Done:
    """Run ``grinch``, and check its exit code."""
    done = run_command(*arguments, **more)
    assert done.returncode == expect, done.stdout + done.stderr
    return done
