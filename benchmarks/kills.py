"""Kill a writer of a store at random moments, again and again, and compare what is left with what was acknowledged.

    python benchmarks/kills.py                    500 kills (some minutes); writes benchmarks/kills.json
    python benchmarks/kills.py --kills 50 --seed 7

A writer process inserts, removes, updates, refines, takes snapshots, names clusters, cuts again (by itself, too: half
of the cuts that it adds are automatic) and compacts. It is killed with SIGKILL: by a timer from outside, or by itself
before, after or in the middle of a call of the system on which durability rests. In half of the latter the power goes
as well: what was written and not synced is lost. Then the folder is opened by another process. All that was
acknowledged must be there, ``check()`` must pass, and version, ids, vectors, payload, tree, labels, names and changes
must be those of a twin that was never killed; the operation that was not acknowledged is there as a whole or not at
all. Then the next writer goes on in the same folder.

All processes are forks of one that has imported and compiled everything.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import select
import shutil
import signal
import sqlite3
import struct
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse

from written import write_figures

OUT = Path(__file__).parent / "kills.json"
ACKNOWLEDGED = struct.Struct("<qq")
N_FEATURES = 6
SETTINGS: dict[str, Any] = {"n_clusters": 6}


# What a writer does -------------------------------------------------------------------------------------------------


def vectors_for(rng: np.random.Generator, n: int) -> np.ndarray:
    centres = np.random.default_rng(1).normal(size=(12, N_FEATURES)) * 4
    drawn: np.ndarray = centres[rng.integers(0, 12, n)] + rng.normal(size=(n, N_FEATURES))
    return drawn.astype(np.float32)


def points_for(seed: int, rng: np.random.Generator, n: int) -> Any:
    """Rows as they come in the life of a seed: sparse ones if it can be divided by 3."""
    rows = vectors_for(rng, n)
    return rows if seed % 3 else scipy.sparse.csr_matrix(np.where(np.abs(rows) < 2, 0, rows))


KINDS = {
    "insert": 40,
    "insert again": 5,
    "remove": 12,
    "update": 10,
    "label": 6,
    "snapshot": 8,
    "refine": 3,
    "compact": 3,
    "recut": 3,
    "cut": 4,
}


def kind_of(seed: int, k: int) -> str:
    """Return the k-th operation of a life."""
    rng = random.Random(f"{seed} {k}")
    return rng.choices(list(KINDS), list(KINDS.values()))[0]


def operate(store: Any, seed: int, k: int) -> None:
    """Do the k-th operation of a life, which depends on nothing but the seed and the store.

    Points have ids of their own if the seed is even, and are sparse if it can be divided by 3.
    """
    rng, kind, ids = np.random.default_rng([seed, k]), kind_of(seed, k), list(store.ids)
    some = [ids[i] for i in rng.permutation(len(ids))[: int(rng.integers(1, 20))].tolist()]
    if kind in ("insert", "insert again") or len(ids) < 30:
        n = int(rng.integers(1, 40))
        X, is_named = points_for(seed, rng, n), seed % 2 == 0
        payload = [{"of": k, "text": "x" * int(rng.integers(0, 30))} for _ in range(n)]
        names = [f"{k}-{i}" for i in range(n)] if is_named else None
        for _ in range(2 if kind == "insert again" and is_named else 1):
            store.insert(X, ids=names, payload=payload)
    elif kind == "remove":
        store.remove(some if len(ids) < 300 else ids[: len(ids) // 2])
    elif kind == "update":
        store.update(some, points_for(seed, rng, len(some)))
    elif kind == "label":
        clusters = sorted(store.clusters())
        store.label(clusters[int(rng.integers(len(clusters)))], f"name {k}")
    elif kind == "refine":
        store.refine()
    elif kind == "recut":
        store.recut("automatic" if "automatic" in store.cuts() else "default")
    elif kind == "cut":
        # Every other one automatic: that is made again and again.
        name, how = ("fine", {"n_clusters": 20}) if k % 2 else ("automatic", {})
        if name in store.cuts():
            store.drop_cut(name)
        else:
            store.add_cut(name, **how)
    else:
        getattr(store, kind)()


def state_of(store: Any) -> dict[str, Any]:
    """All that a user can see of a store, short enough to be sent about."""
    ids, tree = list(store.ids), store.tree
    state: dict[str, Any] = {"version": store.version, "points": len(store), "ids": _digest(ids)}
    if ids:
        vectors = store.vectors(ids)
        rows = vectors.toarray() if scipy.sparse.issparse(vectors) else np.ascontiguousarray(vectors)
        state["vectors"] = hashlib.sha256(rows.tobytes()).hexdigest()[:16]
        state["payload"] = _digest(store.payload(ids))
        state["tree"] = _digest(tree.to_newick(ids))
        state["keys"] = _digest(sorted(tree.keys(ids).tolist()))
    for cut in sorted(store.cuts()):
        state[f"labels of {cut}"] = _digest(store.labels(cut).tolist())
        state[f"names in {cut}"] = _digest(sorted(store.names(cut).items()))
        changes = [str(change) for change in store.changes(since=0, cut=cut)]
        state[f"changes of {cut}"] = f"{len(changes)}, {_digest(changes)}"
    return state


def _digest(value: Any) -> str:
    return hashlib.sha256(repr(value).encode()).hexdigest()[:16]


# Calls of the system ------------------------------------------------------------------------------------------------


class Fate(NamedTuple):
    """The end of a call: a process that is killed ``before``, ``half`` way or ``after``, or with an error."""

    ending: str
    error: Exception | None = None
    with_power: bool = False


class Calls:
    """The calls on which durability rests; ``decide(name)`` is asked about each, and says how it is to end.

    ``with`` this, they are those of ``os`` and of ``sqlite3`` for the whole process.
    """

    NAMES = ("write", "pwrite", "fsync", "fdatasync", "replace", "rename", "ftruncate", "unlink")

    def __init__(self, decide: Callable[[str], Fate | None]):
        self.decide, self._pid = decide, os.getpid()
        self._real: dict[str, Any] = {name: getattr(os, name) for name in self.NAMES if hasattr(os, name)}
        self._connect = sqlite3.connect
        # What was written and not synced: by file, places and lengths. What was renamed, and no folder synced since.
        self._unsynced: dict[str, list[tuple[int, int]]] = {}
        self._renamed: list[tuple[str, str]] = []

    def __enter__(self) -> Calls:
        for name in self._real:
            setattr(os, name, self._wrapped(name))
        calls = self

        class Watched(sqlite3.Connection):
            def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
                if sql.strip().lower() != "commit":
                    return super().execute(sql, *values)
                return calls._call("commit", lambda: super(Watched, self).execute(sql), None)

        sqlite3.connect = lambda *values, **named: calls._connect(*values, factory=Watched, **named)  # type: ignore[assignment]
        return self

    def __exit__(self, *_: object) -> None:
        for name, real in self._real.items():
            setattr(os, name, real)
        sqlite3.connect = self._connect

    def _wrapped(self, name: str) -> Callable[..., Any]:
        real = self._real[name]

        def call(*values: Any, **named: Any) -> Any:
            def half() -> Any:
                piece = memoryview(values[1]).cast("B")
                return real(values[0], piece[: len(piece) // 2], *values[2:])

            result = self._call(name, lambda: real(*values, **named), half if name in ("write", "pwrite") else None)
            self._note(name, values, result)
            return result

        return call

    def _call(self, name: str, whole: Callable[[], Any], half: Callable[[], Any] | None) -> Any:
        fate = self.decide(name)
        if fate is None:
            return whole()
        if fate.ending == "short" and half:
            return half()
        if fate.ending == "after":
            whole()
        elif fate.ending == "half" and half:
            half()
        if fate.error is not None:
            raise fate.error
        # A process that takes a snapshot for the writer has not written what the writer has.
        if fate.with_power and os.getpid() == self._pid:
            self.lose_power()
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("killed")

    def _note(self, name: str, values: tuple[Any, ...], result: Any) -> None:
        if name == "pwrite":
            self._unsynced.setdefault(_path_of(values[0]), []).append((values[2], result))
        elif name in ("fsync", "fdatasync"):
            path = _path_of(values[0])
            self._unsynced.pop(path, None)
            if os.path.isdir(path):
                self._renamed.clear()
        elif name in ("replace", "rename"):
            before, after = os.path.abspath(values[0]), os.path.abspath(values[1])
            self._renamed.append((before, after))
            self._unsynced[after] = self._unsynced.pop(before, [])

    def lose_power(self) -> None:
        """Lose what was not synced: bytes become zero, names of files become what they were."""
        for path, places in self._unsynced.items():
            with suppress(OSError):
                file = os.open(path, os.O_WRONLY)
                for offset, length in places:
                    self._real["pwrite"](file, bytes(length), offset)
        for temporary, path in reversed(self._renamed):
            with suppress(OSError):
                self._real["rename"](path, temporary)


def _path_of(file: int) -> str:
    with suppress(OSError):
        return os.readlink(f"/proc/self/fd/{file}")
    return ""


class Faults:
    """Decides for :class:`Calls`: the n-th call of a name, from when it was asked for, fails."""

    def __init__(self) -> None:
        self.name, self.number, self.fate = "", 0, Fate("")
        self.count, self.has_fired = 0, False

    def arm(self, name: str, number: int, fate: Fate) -> None:
        self.name, self.number, self.fate = name, number, fate
        self.count, self.has_fired = 0, False

    def disarm(self) -> None:
        self.name = ""

    def __call__(self, called: str) -> Fate | None:
        if called != self.name:
            return None
        self.count += 1
        if self.count < self.number or (self.has_fired and self.fate.ending != "short"):
            return None
        if not self.has_fired:
            self.has_fired = True
            return self.fate
        # What is left of a short write finds the disk full.
        return Fate("before", self.fate.error)


# Processes ----------------------------------------------------------------------------------------------------------


def fork(work: Callable[[], None], errors: Path | None = None) -> int:
    """Run ``work`` in a fork and let it end there, whatever happens; the number of the process."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        from grinch.store import snapshots

        # Snapshots in the background, often.
        snapshots.MIN_CHANGED = 100
        work()
        code = 0
    except BaseException:
        if errors is None:
            traceback.print_exc()
        else:
            errors.write_text(traceback.format_exc(), encoding="utf-8")
    finally:
        os._exit(code)


def open_store(folder: Path, **settings: Any) -> Any:
    import grinch

    return grinch.open(folder, **settings)


class Twin:
    """A process with a store that nobody kills, which answers what it looks like after each operation."""

    def __init__(self, folder: Path, seed: int):
        self._pipe, theirs = Pipe()
        self._pid = fork(lambda: self._serve(theirs, folder, seed))
        theirs.close()

    def apply(self, k: int) -> int:
        """Do the k-th operation; the version afterwards."""
        return int(self._ask(k))

    def state(self) -> dict[str, Any]:
        return dict(self._ask("state"))

    def reopen(self) -> None:
        """Close it and open it again: what is due is done."""
        self._ask("reopen")

    def close(self) -> None:
        self._pipe.send(None)
        os.waitpid(self._pid, 0)
        self._pipe.close()

    def _ask(self, what: int | str) -> Any:
        self._pipe.send(what)
        answer = self._pipe.recv()
        if isinstance(answer, str):
            raise RuntimeError(f"{what} failed without a kill: {answer}")
        return answer

    @staticmethod
    def _serve(pipe: Connection, folder: Path, seed: int) -> None:
        store = open_store(folder, **SETTINGS)
        while (what := pipe.recv()) is not None:
            try:
                if what == "reopen":
                    store.close()
                    store = open_store(folder, **SETTINGS)
                elif what != "state":
                    operate(store, seed, what)
                pipe.send(state_of(store) if what == "state" else store.version)
            except Exception:
                pipe.send(traceback.format_exc())


class Moment(NamedTuple):
    """When a writer is killed: after some seconds, or by itself at the n-th call of a name."""

    name: str
    ending: str
    number: int
    seconds: float
    with_power: bool

    def __str__(self) -> str:
        return self.name if self.name == "timer" else f"{self.ending} {self.name}{', power lost' * self.with_power}"


# Calls, how often they are chosen, and up to which number.
MOMENTS = {
    "timer": (30, 0),
    "pwrite": (16, 40),
    "fsync": (16, 40),
    "commit": (20, 20),
    "replace": (12, 4),
    "unlink": (6, 4),
}


def some_moment(rng: random.Random) -> Moment:
    name = rng.choices(list(MOMENTS), [often for often, _ in MOMENTS.values()])[0]
    ending = rng.choice(("before", "half", "after") if name == "pwrite" else ("before", "after"))
    return Moment(name, ending, rng.randint(1, MOMENTS[name][1] or 1), rng.uniform(0, 0.5), rng.random() < 0.5)


def write_until_killed(folder: Path, seed: int, k: int, moment: Moment, acknowledged: int, most: int) -> None:
    """Run a writer: operations from the k-th on, each acknowledged when it is done."""
    count: Counter[str] = Counter()

    def decide(called: str) -> Fate | None:
        count[called] += 1
        if called != moment.name or count[called] != moment.number:
            return None
        return Fate(moment.ending, None, moment.with_power)

    with Calls(decide) as calls:
        store = open_store(folder, **SETTINGS)
        for number in range(k, k + most):
            operate(store, seed, number)
            calls._real["write"](acknowledged, ACKNOWLEDGED.pack(number, store.version))
        # Not reached often: there was no such moment.
        os.kill(os.getpid(), signal.SIGKILL)


def look(folder: Path, how: str) -> dict[str, Any]:
    """The state of a folder, seen by another process, and checked by it."""
    mine, theirs = Pipe()

    def work() -> None:
        try:
            store = open_patiently(folder, **({"readonly": True} if how == "reader" else SETTINGS))
            store.check()
            theirs.send(state_of(store))
            if how == "writer":
                store.close()
        except BaseException:
            theirs.send({"error": traceback.format_exc()})
        if how == "killed writer":
            os.kill(os.getpid(), signal.SIGKILL)

    pid = fork(work)
    theirs.close()
    state: dict[str, Any] = mine.recv()
    os.waitpid(pid, 0)
    mine.close()
    return state


def open_patiently(folder: Path, **settings: Any) -> Any:
    """Open a folder; a process that took a snapshot for a killed writer may be about to end."""
    from grinch.store import StoreLocked

    for _ in range(50):
        try:
            return open_store(folder, **settings)
        except StoreLocked:
            time.sleep(0.02)
    return open_store(folder, **settings)


class Life:
    """A folder, its twin, and how far they are."""

    def __init__(self, place: Path, seed: int):
        self.folder, self.seed, self.k = place / "store", seed, 0
        # In memory, where the system has files there: a twin need not survive.
        memory = Path("/dev/shm")
        self._twin_place = Path(tempfile.mkdtemp(dir=memory if memory.is_dir() else place))
        self.twin = Twin(self._twin_place / "store", seed)

    def kill_once(self, moment: Moment, how: str, most: int = 60) -> tuple[str, str | None]:
        """Let a writer work until it is killed; what it was at, and what is wrong with what it left (None: nothing)."""
        read, write = os.pipe()
        errors = self.folder.with_name("errors")
        pid = fork(lambda: write_until_killed(self.folder, self.seed, self.k, moment, write, most), errors)
        os.close(write)
        if moment.name == "timer":
            time.sleep(moment.seconds)
            os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        # Not until the end of the pipe: a process that takes a snapshot for the writer may live on.
        received = os.read(read, 2**20) if select.select([read], [], [], 0)[0] else b""
        os.close(read)
        if not os.WIFSIGNALED(status):
            return "", f"the writer ended with an error of its own: {errors.read_text(encoding='utf-8')}"
        for number, version in ACKNOWLEDGED.iter_unpack(received):
            self.k = number + 1
            if (expected := self.twin.apply(number)) != version:
                return "", f"operation {number} made version {version}; its twin is at {expected}"
        # At first there may be no store to read yet.
        how = how if self.k else "writer"
        wrong = self._compare(how)
        if how == "writer":
            self.twin.reopen()
        return kind_of(self.seed, self.k), wrong

    def _compare(self, how: str) -> str | None:
        state = look(self.folder, how)
        before = after = self.twin.state()
        if state == before:
            return None
        if "error" not in state:
            self.twin.apply(self.k)
            after = self.twin.state()
            if state == after:
                self.k += 1
                return None
        about = f"seed {self.seed}, operation {self.k} ({kind_of(self.seed, self.k)}) not acknowledged, seen by a {how}"
        if "error" in state:
            return f"{about}: {state['error']}"
        differs = [name for name in before | state if state.get(name) not in (before.get(name), after.get(name))]
        return f"{about}: version {state['version']}, differs in {', '.join(differs) or 'a mixture of both'}"

    def close(self) -> None:
        self.twin.close()
        shutil.rmtree(self._twin_place)


def warm_up(seeds: Iterable[int] = (1, 3)) -> None:
    """Import and compile in this process what its forks will use: for dense rows and, by a seed like 3, sparse ones."""
    with tempfile.TemporaryDirectory() as folder:
        for seed in seeds:
            store = open_store(Path(folder) / f"store-{seed}", **SETTINGS)
            for k in range(60):
                operate(store, seed, k)
            state_of(store)
            store.close()


def run(kills: int, seed: int, place: Path, tell: Callable[[str], None]) -> dict[str, Any]:
    """Kill many times; what was found."""
    began, rng = time.perf_counter(), random.Random(seed)
    moments: Counter[str] = Counter()
    kinds: Counter[str] = Counter()
    failures: list[str] = []
    operations, life, folder = 0, None, place / "0"
    for number in range(kills):
        # A new store now and then, for its first moments.
        if life is None or number % 100 == 0:
            if life is not None:
                operations += life.k
                life.close()
            folder = place / str(number)
            folder.mkdir()
            life = Life(folder, seed + number // 100 + len(failures))
        moment, how = some_moment(rng), rng.choice(("reader", "writer", "killed writer"))
        kind, wrong = life.kill_once(moment, how)
        moments[str(moment)] += 1
        kinds[kind] += 1
        if wrong:
            failures.append(f"kill {number}, {moment}, {wrong}")
            tell(failures[-1])
            operations += life.k
            life.close()
            life = None
        else:
            tell(f"{number + 1} of {kills} kills, {len(failures)} failures, at operation {life.k}")
    if life is not None:
        operations += life.k
        life.close()
    return {
        "kills": kills,
        "failures": failures,
        "operations": operations,
        "seconds": round(time.perf_counter() - began, 1),
        "by moment": dict(moments.most_common()),
        "by operation that was not acknowledged": dict(kinds.most_common()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", action="store_true", help="leave the folders in place")
    parser.add_argument("--out", type=Path, default=OUT)
    arguments = parser.parse_args()
    warm_up()
    place = Path(tempfile.mkdtemp(prefix="kills-"))
    found = run(arguments.kills, arguments.seed, place, print)
    if not arguments.keep:
        shutil.rmtree(place)
    write_figures(arguments.out, found)
    print(
        f"{found['kills']} kills, {len(found['failures'])} failures, {found['seconds']} s; written to {arguments.out}"
    )


if __name__ == "__main__":
    main()
