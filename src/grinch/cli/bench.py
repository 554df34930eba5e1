"""The paper's experiments, which are not part of the package but stand beside it in the repository."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import typer

import grinch

SOURCES = Path(grinch.__file__).resolve().parents[1]
ROOT = SOURCES.parent


def bench(context: typer.Context) -> None:
    """Run the experiments of the paper, in a checkout of the code."""
    raise typer.Exit(_run("bench", context.args))


def report(context: typer.Context) -> None:
    """Make a page of the results of bench."""
    raise typer.Exit(_run("report", context.args))


def _run(command: str, arguments: list[str]) -> int:
    """Run a command of the experiments in a process of its own, and return its exit code."""
    if not (ROOT / "experiments" / "__main__.py").exists():
        raise FileNotFoundError(
            f"grinch {command} needs the folder 'experiments' of the repository, which is not in {str(ROOT)!r} nor part"
            " of an installed package; clone the repository and install it from there: pip install -e ."
        )
    paths = [str(ROOT), str(SOURCES), *filter(None, [os.environ.get("PYTHONPATH")])]
    # -P: a folder of the same name where the user is would come first.
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "experiments", command, *arguments],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
    )
    previous = signal.signal(signal.SIGTERM, lambda *_: process.terminate())
    try:
        code = _wait(process)
    finally:
        signal.signal(signal.SIGTERM, previous)
    return code if code >= 0 else 128 - code


def _wait(process: subprocess.Popen[bytes]) -> int:
    """Wait for the process to end, and pass Ctrl-C on to it."""
    while True:
        try:
            return process.wait()
        except KeyboardInterrupt:
            # A terminal interrupts both processes, kill -INT only this one.
            with suppress(subprocess.TimeoutExpired):
                return process.wait(1)
            process.send_signal(signal.SIGINT)
