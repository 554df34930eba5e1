"""Named tuples that compiled code passes on by their address.

numba passes a tuple to a function as all of its numbers, seven or more for an array: two hundred for a whole state, at
each of hundreds of calls. Most of the time of compiling went into that.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any, TypeVar

from llvmlite import ir
from numba import extending, types
from numba.core import cgutils
from numba.core.typing.templates import AttributeTemplate

T = TypeVar("T", bound=type)


class Reference(types.Type):  # type: ignore[misc]
    """The address of the fields of a named tuple, which do not change while compiled code runs."""

    def __init__(self, of: type, fields: tuple[types.Type, ...]):
        self.of, self.fields = of, fields
        # Short, for it is part of the name of every function that takes it.
        digest = hashlib.sha256(f"{of.__module__} {fields}".encode()).hexdigest()
        super().__init__(f"Reference({of.__qualname__}-{digest[:16]})")

    def field(self, name: str) -> int:
        """Return the position of a field, or -1."""
        names: tuple[str, ...] = self.of._fields  # type: ignore[attr-defined]
        return names.index(name) if name in names else -1


def by_reference(of: T) -> T:
    """Let compiled code take the tuples of this class by reference: it may read their fields, and nothing else.

    That is for functions without reference counts: all except those marked ``compiled``.
    """

    @extending.typeof_impl.register(of)  # type: ignore[untyped-decorator]
    def typeof(value: Any, context: Any) -> Reference:
        return Reference(of, tuple(extending.typeof_impl(field, context) for field in value))

    return of


def narrowing(to: type) -> Callable[[Any], Any]:
    """Return a function that takes a tuple for its part with the fields of another class, which stand in one row.

    A function that takes the part is compiled once for all kinds of the whole.
    """
    names: tuple[str, ...] = to._fields  # type: ignore[attr-defined]

    def narrow(whole: Any) -> Any:
        return whole

    @extending.type_callable(narrow)  # type: ignore[untyped-decorator]
    def typed(context: Any) -> Any:
        def typer(kind: Reference) -> Reference:
            at = kind.field(names[0])
            return Reference(to, kind.fields[at : at + len(names)])

        return typer

    @extending.lower_builtin(narrow, Reference)  # type: ignore[untyped-decorator]
    def lowered(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        (kind,) = signature.args
        place = builder.bitcast(args[0], _memory(context, kind).as_pointer())
        return builder.bitcast(cgutils.gep_inbounds(builder, place, 0, kind.field(names[0])), cgutils.voidptr_t)

    return narrow


extending.register_model(Reference)(extending.models.OpaqueModel)


@extending.unbox(Reference)  # type: ignore[untyped-decorator]
def _unbox(kind: Reference, value: Any, c: Any) -> extending.NativeValue:
    """Write the fields of a Python tuple to the stack. Arrays are borrowed from the tuple, which outlives the call."""
    place = cgutils.alloca_once(c.builder, _memory(c.context, kind))
    failed = cgutils.alloca_once_value(c.builder, cgutils.false_bit)
    for i, field in enumerate(kind.fields):
        item, at = c.pyapi.tuple_getitem(value, i), cgutils.gep_inbounds(c.builder, place, 0, i)
        if isinstance(field, types.Array):
            error = c.pyapi.numba_array_adaptor(item, c.builder.bitcast(at, c.pyapi.voidptr))
            is_error = cgutils.is_not_null(c.builder, error)
        else:
            native = c.unbox(field, item)
            c.builder.store(c.context.data_model_manager[field].as_data(c.builder, native.value), at)
            is_error = native.is_error
        with c.builder.if_then(is_error, likely=False):
            c.builder.store(cgutils.true_bit, failed)
    return extending.NativeValue(_as_unknown(c.builder, place), is_error=c.builder.load(failed))


def _as_unknown(builder: Any, place: Any) -> Any:
    """Return an address as one that LLVM knows nothing about: what is read from there never changes, see below."""
    address = builder.bitcast(place, cgutils.voidptr_t)
    function = ir.FunctionType(cgutils.voidptr_t, [cgutils.voidptr_t])
    return builder.asm(function, "", "=r,0,~{memory}", [address], side_effect=True)


@extending.infer_getattr
class _Fields(AttributeTemplate):  # type: ignore[misc]
    key = Reference

    def generic_resolve(self, kind: Reference, name: str) -> types.Type | None:
        at = kind.field(name)
        return kind.fields[at] if at >= 0 else None


@extending.lower_getattr_generic(Reference)  # type: ignore[untyped-decorator]
def _read(context: Any, builder: Any, kind: Reference, value: Any, name: str) -> Any:
    i = kind.field(name)
    field, place = kind.fields[i], builder.bitcast(value, _memory(context, kind).as_pointer())
    if isinstance(field, types.Array):
        return _read_array(context, builder, field, place, i)
    loaded = _load(builder, place, i)
    return context.data_model_manager[field].from_data(builder, loaded)


def read_item(context: Any, builder: Any, kind: Reference, value: Any, name: str, i: int) -> Any:
    """Read entry i of an array that is a field."""
    array_type = kind.fields[kind.field(name)]
    array = context.make_array(array_type)(context, builder, _read(context, builder, kind, value, name))
    return builder.load(cgutils.gep(builder, array.data, i))


def _read_array(context: Any, builder: Any, kind: types.Array, place: Any, i: int) -> Any:
    """Read what there is to know of an array; the rest follows from it, or is not needed where nothing is counted."""
    members = context.data_model_manager[kind]
    array = ir.Constant(members.get_value_type(), ir.Undefined)
    for name in members._fields:
        at = members.get_field_position(name)
        member_type = members.get_type(name)
        if name in ("shape", "strides"):
            for axis in range(kind.ndim):
                array = builder.insert_value(array, _load(builder, place, i, at, axis), (at, axis))
        elif name in ("meminfo", "parent"):
            array = builder.insert_value(array, ir.Constant(context.get_value_type(member_type), None), at)
        else:
            array = builder.insert_value(array, _load(builder, place, i, at), at)
    return array


def _load(builder: Any, place: Any, *at: int) -> Any:
    loaded = builder.load(cgutils.gep_inbounds(builder, place, 0, *at))
    loaded.set_metadata("invariant.load", builder.module.add_metadata([]))
    return loaded


def _memory(context: Any, kind: Reference) -> ir.LiteralStructType:
    """Return the layout of the fields in memory."""
    return ir.LiteralStructType([context.get_data_type(field) for field in kind.fields])
