"""A process beside this one that runs methods, one after the other, each in a copy of itself that can be stopped."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, NamedTuple

from grinch.compare.worker import FORKS


class Outcome(NamedTuple):
    """Figures by measure, one for each order, and what went wrong, if something did."""

    figures: dict[str, list[float]]
    failure: str = ""
    why: str = ""


class Worker:
    """Runs jobs in :mod:`grinch.compare.worker`.

    Starting it takes seconds, most of them for importing, so it is started once and forks for each job; where it cannot
    fork, each job gets a worker of its own. ``folder`` is for what it says on the error stream.
    """

    def __init__(self, folder: Path):
        self.errors = folder / "errors.txt"
        self.process: subprocess.Popen[str] | None = None
        self.messages: queue.Queue[str | None] = queue.Queue()

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def run(self, job: dict[str, Any], limit: float | None, progress: Callable[[int], None]) -> Outcome:
        """Run one job, for at most ``limit`` seconds an order."""
        self._send(job)
        try:
            outcome = self._listen(limit, progress)
        except BaseException:
            self.stop()
            raise
        if not FORKS:
            self.stop()
        return outcome

    def _send(self, job: dict[str, Any]) -> None:
        if self.process is None:
            self._start()
        assert self.process is not None
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(job) + "\n")
        self.process.stdin.flush()

    def _start(self) -> None:
        with open(self.errors, "w") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "grinch.compare.worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                start_new_session=FORKS,  # so that it and its copies can be stopped together
            )
        assert self.process.stdout is not None
        self.messages = queue.Queue()
        threading.Thread(target=_read_lines, args=(self.process.stdout, self.messages), daemon=True).start()

    def _listen(self, limit: float | None, progress: Callable[[int], None]) -> Outcome:
        outcome, done, begun = Outcome({}), 0, False
        while True:
            try:
                line = self.messages.get(timeout=limit if begun else None)
            except queue.Empty:
                self.stop()
                return outcome._replace(failure=f"over {limit:,.0f} s", why="stopped by the time limit")
            message: dict[str, Any] = json.loads(line) if line is not None else {"ended": self._exit_code()}
            begun = "begun" in message
            if "failed" in message:
                outcome = outcome._replace(failure=message["failed"], why=message["why"])
            elif "found" in message:
                for measure, value in message["found"].items():
                    outcome.figures.setdefault(measure, []).append(value)
                done += 1
                progress(done)
            elif "ended" in message:
                return outcome if message["ended"] == 0 else self._died(outcome.figures, message["ended"])

    def _exit_code(self) -> int:
        """That of a worker which is gone; never 0, for then it would have said that the job is done."""
        assert self.process is not None
        code = self.process.wait()
        self.stop()
        return code or 1

    def _died(self, figures: dict[str, list[float]], code: int) -> Outcome:
        if code == -9:
            return Outcome(figures, "out of memory", "killed by the system")
        if code < 0:
            return Outcome(figures, "failed", f"ended by signal {-code}")
        said = self.errors.read_text(errors="replace").strip().splitlines()
        return Outcome(figures, "failed", said[-1] if said else f"ended with code {code}")

    def stop(self) -> None:
        """End the worker and its copy; the next job starts another."""
        if self.process is None:
            return
        if FORKS:
            with suppress(ProcessLookupError):  # it may be gone already, and its copy too
                os.killpg(self.process.pid, signal.SIGKILL)
        else:
            self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                stream.close()
        self.process = None


def _read_lines(stream: IO[str], lines: queue.Queue[str | None]) -> None:
    """The lines of a stream as they come, then None."""
    try:
        for line in stream:
            lines.put(line)
    except ValueError:
        pass  # closed by us
    lines.put(None)
