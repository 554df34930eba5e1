"""Compilation by numba: once per machine, kept in its cache, with a notice to the user while it takes long."""

from __future__ import annotations

import hashlib
import os
import secrets
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from llvmlite.binding import Linkage
from numba import njit
from numba.core.caching import CompileResultCacheImpl, FunctionCache, IndexDataCacheFile, NullCache
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.compiler_lock import global_compiler_lock
from numba.core.compiler_machinery import register_pass
from numba.core.typed_passes import NativeLowering, NopythonRewrites
from numba.extending import register_jitable

from grinch._bounds import CHECKS, IS_CHECKED
from grinch._interrupts import no_garbage_collection, uninterrupted

F = TypeVar("F", bound=Callable[..., Any])


# Rooms without compiled code; a change in one of them compiles nothing again.
NOT_COMPILED = {"cli", "compare", "datasets", "estimators", "hints", "io", "plots", "saving", "serve", "store"}
# Nothing compiled here allocates, so arrays need no reference counts. Counting them made an insert six times slower.
NO_COUNTS: dict[str, bool] = {"_nrt": False}
# Nothing here is called from C.
OPTIONS: dict[str, bool] = {"nogil": True, "no_cfunc_wrapper": True, **CHECKS}
# A part is compiled once for all callers with the same options, so entries have those of parts.
PART: dict[str, bool] = {"no_cpython_wrapper": True, **OPTIONS, **NO_COUNTS}


def jitable(function: F) -> F:
    """Let compiled code call a plain Python function too, which must not allocate arrays."""
    jittable: F = register_jitable(pipeline_class=_PartCompiler, **PART)(function)
    return jittable


def kernel(function: F) -> F:
    """Compile a function on arrays that releases the GIL and allocates nothing; sums may be reordered into lanes."""
    return _cached(njit(fastmath={"reassoc", "contract", "nsz"}, **OPTIONS, **NO_COUNTS)(function))


def entry(function: F) -> F:
    """Compile a function through which Python enters the moves; it releases the GIL and allocates nothing."""
    return _cached(njit(pipeline_class=_EntryCompiler, **PART)(function))


def addressed(function: Callable[..., Any], signature: Any) -> Callable[[], int]:
    """Return a function that compiles the given one and returns its address, for other compiled code to call."""
    dispatcher = _cached(njit(pipeline_class=_AddressedCompiler, **PART)(function))

    @cache
    def address() -> int:
        dispatcher.compile(signature)
        (result,) = dispatcher.overloads.values()
        return int(result.library.get_pointer_to_function(result.fndesc.llvm_cfunc_wrapper_name))

    return address


def compiled(function: F) -> F:
    """Compile a function that releases the GIL; it may allocate arrays, and sums stay in their order."""
    return _cached(njit(**OPTIONS)(function))


@contextmanager
def no_compilation() -> Iterator[None]:
    """Wait until no thread compiles, and let none begin: a fork from here can load and run compiled code."""
    with global_compiler_lock:
        yield


# Parts of an entry ----------------------------------------------------------------------------------------------------


class _Part(JITCodeLibrary):  # type: ignore[misc]
    """Code that is only ever linked into an entry: it is optimised there, and no machine code is made of it alone.

    numba makes a whole program of every function; for sixty functions that call each other that is most of the time.
    """

    def _optimize_final_module(self) -> None:
        """Left to the entry."""

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True


@register_pass(mutates_CFG=True, analysis_only=False)
class _LowerPart(NativeLowering):  # type: ignore[misc]
    """numba's own pass, but for a part of an entry."""

    _name = "grinch_lower_part"

    def run_pass(self, state: Any) -> bool:
        state.library = _Part(state.targetctx.codegen(), state.func_id.func_qualname)
        state.flags.no_compile = True
        super().run_pass(state)
        # The key by which callers find the code: any built-in function will do, and nobody calls it.
        key: Any = [].append
        state.targetctx.insert_user_function(key, state["cr"].fndesc, [state.library])
        state["cr"] = state["cr"]._replace(cfunc=key)
        return True


class _Entry(JITCodeLibrary):  # type: ignore[misc]
    """An entry with all its parts, which only it calls.

    Otherwise every part takes a whole state, of some hundred and fifty words, that its callers put on the stack for it.
    """

    def _optimize_final_module(self) -> None:
        for function in self._final_module.functions:
            if function.linkage == Linkage.linkonce_odr and not function.is_declaration:
                # Not internal: the name would stay in the object, and LLVM binds weak copies of it in objects that are
                # loaded later to this function, whose arguments are no longer theirs.
                function.linkage = Linkage.private
        super()._optimize_final_module()


@register_pass(mutates_CFG=True, analysis_only=False)
class _LowerEntry(NativeLowering):  # type: ignore[misc]
    """numba's own pass, but for an entry."""

    _name = "grinch_lower_entry"

    def run_pass(self, state: Any) -> bool:
        state.library = _Entry(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library.enable_object_caching()
        state.flags.no_cpython_wrapper = False
        super().run_pass(state)
        return True


@register_pass(mutates_CFG=True, analysis_only=False)
class _LowerAddressed(_LowerEntry):
    """The pass above, for a function that is called by its address and not from Python."""

    _name = "grinch_lower_addressed"

    def run_pass(self, state: Any) -> bool:
        state.flags.no_cfunc_wrapper = False
        return super().run_pass(state)


class _PartCompiler(Compiler):  # type: ignore[misc]
    """numba's compiler with another pass for the lowering, and without the one for expressions of whole arrays."""

    lowering: type[NativeLowering] = _LowerPart

    def define_pipelines(self) -> list[Any]:
        (pipeline,) = super().define_pipelines()
        passes = [(self.lowering if step is NativeLowering else step, why) for step, why in pipeline.passes]
        pipeline.passes = [(step, why) for step, why in passes if step is not NopythonRewrites]
        pipeline.finalize()
        return [pipeline]


class _EntryCompiler(_PartCompiler):
    """The compiler of entries."""

    lowering = _LowerEntry


class _AddressedCompiler(_PartCompiler):
    """The compiler of functions that are called by their address."""

    lowering = _LowerAddressed


# The cache ------------------------------------------------------------------------------------------------------------


_caches: list[FunctionCache] = []


@cache
def source_digest() -> str:
    """Return a digest of all sources of compiled code: the cache key of everything that is kept."""
    digest = hashlib.sha256(b"checked" if IS_CHECKED else b"")
    here = Path(__file__).parent
    for path in sorted(here.rglob("*.py")):
        if path.relative_to(here).parts[0] not in NOT_COMPILED:
            digest.update(path.read_bytes())
    return digest.hexdigest()


def compiled_folder() -> str | None:
    """Return the folder that compiled code is in, by module; None where none can be written."""
    return os.path.commonpath([cache.cache_path for cache in _caches]) if _caches else None


def _cached(dispatcher: Any) -> Any:
    """Give a compiled function a cache that every source of the package is part of the key of."""
    try:
        dispatcher._cache = _PackageCache(dispatcher.py_func)
        _caches.append(dispatcher._cache)
    except (RuntimeError, OSError):  # no folder can be written
        _say_uncached()
        dispatcher._cache = _NoCache()
    compile_whole = dispatcher.compile

    def compile_uninterrupted(signature: Any) -> Any:
        """LLVM is left with dangling pointers where an exception cuts it short: the process crashes sooner or later."""
        with uninterrupted(), no_garbage_collection():
            return compile_whole(signature)

    dispatcher.compile = compile_uninterrupted
    return dispatcher


@cache
def _say_uncached() -> None:
    """Print once that nothing can be cached."""
    message = (
        "grinch: no folder for compiled code can be written, so every process compiles; set NUMBA_CACHE_DIR to one"
    )
    print(message, file=sys.stderr, flush=True)


class _Notice:
    """One line on the error stream while compiling takes long; the cache starts and stops it."""

    def __init__(self, seconds: float = 1.5):
        self.seconds = seconds
        self._timer: threading.Timer | None = None
        self._depth = 0

    def start(self) -> None:
        self._depth += 1
        if self._depth == 1 and self._timer is None and self.seconds < float("inf"):
            self._timer = threading.Timer(self.seconds, self._say)
            self._timer.daemon = True
            self._timer.start()

    def stop(self) -> None:
        self._depth = max(self._depth - 1, 0)
        if self._depth == 0 and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _say(self) -> None:
        self.seconds = float("inf")  # said once
        message = "grinch: compiling what this call needs; that is kept (grinch warmup compiles everything at once)"
        print(message, file=sys.stderr, flush=True)


_notice = _Notice()


class _PackageCacheImpl(CompileResultCacheImpl):  # type: ignore[misc]
    """numba keys its cache by the file of a function alone, and would go on using what was compiled from others.

    The stamp of the file is that of all sources instead.
    """

    def __init__(self, function: Callable[..., Any]):
        super().__init__(function)
        self._locator.get_source_stamp = source_digest


class _CacheFiles(IndexDataCacheFile):  # type: ignore[misc]
    """numba's files of a function, for processes that compile at the same time.

    numba writes the index first, and numbers the file with the code as other processes do at that moment: a process
    that reads in between runs the code of another signature, or of an earlier release. Here, code comes first, under a
    new name.
    """

    def save(self, key: Any, data: Any) -> None:
        folder = Path(self._cache_path)
        with _alone_in(folder):
            name = self._data_name(secrets.randbits(62))
            self._save_data(name, data)
            overloads = {**self._load_index(), key: name}
            self._save_index(overloads)
            for path in folder.glob(self._data_name_pattern.replace("{number:d}", "*")):
                if path.name not in overloads.values():
                    with suppress(OSError):  # somebody is reading it
                        path.unlink()


@contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """Let in one process at a time, where the system has such locks; without them, code may be compiled twice."""
    try:
        import fcntl
    except ImportError:
        yield
        return
    with open(folder / "grinch.lock", "ab") as file:
        with suppress(OSError):  # a file system without locks
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


class _PackageCache(FunctionCache):  # type: ignore[misc]
    """numba's cache; what it does not hold is about to be compiled, with a notice if it takes long."""

    _impl_class = _PackageCacheImpl

    def __init__(self, function: Callable[..., Any]):
        super().__init__(function)
        name = f"checked-{self._impl.filename_base}" if IS_CHECKED else self._impl.filename_base
        self._cache_file = _CacheFiles(self._cache_path, name, source_digest())

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        try:
            found = super().load_overload(sig, target_context)
        except Exception:  # a damaged or unreadable file is as good as none
            found = None
            with suppress(OSError):
                self.flush()
        if found is None:
            _notice.start()
        return found

    def save_overload(self, sig: Any, data: Any) -> None:
        _notice.stop()
        try:
            super().save_overload(sig, data)
        except OSError:  # a full disk, a folder that went away: compiled all the same
            _say_uncached()


class _NoCache(NullCache):  # type: ignore[misc]
    """No cache, where none can be written; the notice is printed all the same."""

    def load_overload(self, sig: Any, target_context: Any) -> None:
        _notice.start()

    def save_overload(self, sig: Any, data: Any) -> None:
        _notice.stop()
