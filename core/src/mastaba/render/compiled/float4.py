"""Four float32 numbers that are computed with at once, as all processors can.

A compiler finds such fours by itself in simple loops only; in those of a kernel over the channels
of pixels it does not. A pixel of fewer than four channels takes what follows along: its values
come out right, and the next pixel is written over the rest.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic, models, register_model

_NUMBER = ir.FloatType()
_FOUR = ir.VectorType(_NUMBER, 4)
_BYTES = ir.VectorType(ir.IntType(8), 4)
_INDEX = ir.IntType(32)
_ONE_ROUNDING = ("contract",)


class Float4(types.Type):
    """The type of four numbers, for the compiler."""

    def __init__(self) -> None:
        super().__init__(name="Float4")


_float4 = Float4()


def _operation(generator: Any) -> Any:
    # Outside of compiled functions, nothing is known of the types of an operation.
    return intrinsic(generator)


@register_model(Float4)
class _Model(models.PrimitiveModel):
    def __init__(self, manager: Any, type_: Any) -> None:
        super().__init__(manager, type_, _FOUR)  # type: ignore[no-untyped-call]


@_operation
def zeros(_typing: Any) -> Any:
    """Return four zeros."""

    def generate(_context: Any, _builder: Any, _signature: Any, _arguments: Any) -> Any:
        return ir.Constant(_FOUR, [0.0] * 4)

    return _float4(), generate


@_operation
def load(_typing: Any, array: Any, index: Any) -> Any:
    """Return four numbers of a flat array of uint8 or float32; not checked to lie inside."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = _place(context, builder, signature, arguments)
        if array.dtype == types.uint8:
            found = builder.load(builder.bitcast(place, _BYTES.as_pointer()), align=1)
            return builder.uitofp(found, _FOUR)
        return builder.load(builder.bitcast(place, _FOUR.as_pointer()), align=4)

    return _float4(array, index), generate


@_operation
def store(_typing: Any, array: Any, index: Any, value: Any) -> Any:
    """Write four numbers into a flat array of float32; not checked to lie inside."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = _place(context, builder, signature, arguments)
        builder.store(arguments[2], builder.bitcast(place, _FOUR.as_pointer()), align=4)
        return context.get_dummy_value()

    return types.void(array, index, value), generate


@_operation
def add_weighted(_typing: Any, total: Any, weight: Any, value: Any) -> Any:
    """Return ``total + weight * value``, where ``weight`` is one float32."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        undefined = ir.Constant(_FOUR, ir.Undefined)
        first = builder.insert_element(undefined, arguments[1], _INDEX(0))
        four_times = ir.Constant(ir.VectorType(_INDEX, 4), [0] * 4)
        weights = builder.shuffle_vector(first, undefined, four_times)
        product = builder.fmul(weights, arguments[2], flags=_ONE_ROUNDING)
        return builder.fadd(arguments[0], product, flags=_ONE_ROUNDING)

    return _float4(_float4, types.float32, _float4), generate


def _place(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    array = context.make_array(signature.args[0])(context, builder, arguments[0])
    return builder.gep(array.data, [arguments[1]])
