"""Generation of instances of a pattern: nodes that it matches, made from the pattern itself.

`iter_instances` walks the pattern's declaration. All uses of a name get the same node, constants are
filtered by the pattern's own conditions, and commutative operands appear in both orders. Full-range
variables and constants come first, then operands with structure (`operands`). Nothing here is
specific to a rule."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from random import Random
from typing import Final

from svod_dtype import ALL_DTYPES, DType, bool_, float32, index, int32, uint8, void
from svod_ir import AxisType, GraphError, Op, ParamArg, Pattern, UOp
from svod_ir.ops import BINARY, COMPARISON, REDUCTIONS, UNARY, takes
from svod_ir.pattern import ANYTHING
from svod_schedule.prove.movements import MOVED, sample_arg
from svod_schedule.prove.operands import MEMORY_SIZE, Operands, list_constants, truth_like

__all__ = ["MAIN_DTYPES", "iter_instances", "iter_tensor_instances"]

_CONSTANTS: Final = frozenset({Op.CONST, Op.VCONST})


class _Mismatch(Exception):
    pass


def iter_instances(
    pattern: Pattern, dtype: DType, seed: str, n_plain: int, n_structured: int
) -> Iterator[UOp]:
    """Generate nodes that a pattern may match, with operands of `dtype` unless the pattern restricts
    it; deterministic for equal arguments.
    """
    random = Random(seed)
    for attempt in range(n_plain + n_structured):
        depth = 0 if attempt < n_plain else random.choice((1, 1, 2, 2, 3))
        generator = _Generator(Operands(random, dtype, depth))
        try:
            instance = generator.instance(pattern)
        except _Mismatch:
            continue
        yield instance


def iter_tensor_instances(
    pattern: Pattern, dtype: DType, seed: str, n_attempts: int
) -> Iterator[UOp]:
    """Generate instances on whole tensors, for patterns of elementwise ops, movement ops and
    reductions over axes.
    """
    random = Random(seed)
    for _ in range(n_attempts):
        generator = _Generator(Operands(random, dtype, depth=0, is_tensor=True))
        try:
            instance = generator.instance(pattern)
            if instance.find_shape():
                yield instance
        except (_Mismatch, GraphError):
            # Operands of different shapes do not form a valid graph.
            continue


class _Generator:
    """Generator of one instance."""

    def __init__(self, operands: Operands) -> None:
        self.operands = operands
        self.captured: dict[str, UOp] = {}

    def instance(self, pattern: Pattern) -> UOp:
        main = self.operands.dtype
        wants = [main, truth_like(main)] if not main.is_bool else [main]
        if pattern.ops is not None and pattern.ops <= {Op.CAST, Op.BITCAST, Op.GEP}:
            wants = [main, self.operands.other_dtype()]
        return self._make(pattern, self.operands.choose(wants))

    def _make(self, pattern: Pattern, want: DType) -> UOp:
        name = pattern.name
        if name is not None and name in self.captured:
            if self.captured[name].dtype is not want:
                raise _Mismatch
            return self.captured[name]
        result = self._make_new(pattern, want)
        if pattern.kinds is not None and result.dtype.kind not in pattern.kinds:
            raise _Mismatch
        if pattern.when is not None and not pattern.when(result):
            raise _Mismatch
        if name is not None:
            self.captured[name] = result
        return result

    def _make_new(self, pattern: Pattern, want: DType) -> UOp:
        if (
            pattern.kinds is not None
            and want.kind not in pattern.kinds
            and want.kind != "void"
            and pattern.ops is None
        ):
            raise _Mismatch
        if pattern.ops is None:
            return self.operands.expression(want)
        if _is_constant(pattern):
            return self._make_constant(pattern, want)
        op = self.operands.choose(sorted(pattern.ops, key=lambda o: o.value))
        special = _SPECIAL.get(op)
        if special is not None:
            return special(self, pattern, want)
        return self._make_elementwise(pattern, op, want)

    def _make_constant(self, pattern: Pattern, want: DType) -> UOp:
        if pattern.ops is not None and Op.VCONST not in pattern.ops and want.lanes > 1:
            raise _Mismatch
        constant = self.operands.constant(want)
        if pattern.when is None or pattern.when(constant):
            return constant
        # Try all representative constants against the condition of the pattern.
        options = [c for v in list_constants(want.scalar) if pattern.when(c := UOp.const(want, v))]
        if not options:
            raise _Mismatch
        chosen = self.operands.choose(options)
        if want.is_int and chosen.op is Op.CONST:
            self.operands.numbers.append(chosen.arg)
        return chosen

    def _make_elementwise(self, pattern: Pattern, op: Op, want: DType) -> UOp:
        wants = self._operand_dtypes(op, want)
        patterns = pattern.src if pattern.src is not None else (Pattern(),) * len(wants)
        if len(patterns) != len(wants):
            raise _Mismatch
        # Constants first: bounds and coefficients are generated to fit them.
        order = sorted(range(len(patterns)), key=lambda i: not _is_constant(patterns[i]))
        operands: dict[int, UOp] = {i: self._make(patterns[i], wants[i]) for i in order}
        src = tuple(operands[i] for i in range(len(patterns)))
        if pattern.is_commutative and self.operands.chance(0.5):
            src = src[::-1]
        return UOp(op, want, src)

    def _operand_dtypes(self, op: Op, want: DType) -> tuple[DType, ...]:
        main = self.operands.dtype
        if op in COMPARISON:
            if want is not truth_like(main):
                raise _Mismatch
            return (main, main)
        if op is Op.WHERE:
            return (truth_like(want), want, want)
        if op is Op.CAST or op is Op.BITCAST:
            return (self._cast_source(op, want),)
        if not takes(op, want):
            raise _Mismatch
        return (want,) * (1 if op in UNARY else 2 if op in BINARY else 3)

    def _cast_source(self, op: Op, want: DType) -> DType:
        source = self.operands.choose(
            (self.operands.dtype, self.operands.other_dtype(), self.operands.other_dtype())
        )
        if op is Op.BITCAST and (
            source.bits != want.bits
            or source.is_bool
            or want.is_bool
            or "index" in (source.kind, want.kind)
        ):
            raise _Mismatch
        return source

    # Tensors.

    def make_moved(self, pattern: Pattern, want: DType, op: Op) -> UOp:
        source, *_ = pattern.src or (Pattern(),)
        operand = self._make(source, want)
        shape = tuple(s for s in operand.find_shape() or () if isinstance(s, int))
        if not shape:
            raise _Mismatch
        arg = (
            sample_arg(op, shape, self.operands.random) if pattern.arg is ANYTHING else pattern.arg
        )
        return UOp(op, want, (operand,), arg)

    # Loops, memory and vectors.

    def make_reduce(self, pattern: Pattern, want: DType) -> UOp:
        if want.lanes > 1:
            raise _Mismatch
        loops: list[UOp] = [self.operands.loop() for _ in range(self.operands.choose((1, 1, 2)))]
        if self.operands.chance(0.3):
            loops.append(UOp.const(loops[0].dtype, 0))
        options = (
            [pattern.arg]
            if isinstance(pattern.arg, Op)
            else sorted(REDUCTIONS, key=lambda o: o.value)
        )
        source, *_ = pattern.src or (Pattern(),)
        body = self._make(source, want)
        return UOp(Op.REDUCE, want, (body, *loops), self.operands.choose(options))

    def make_end(self, pattern: Pattern, want: DType) -> UOp:
        del pattern
        if want.lanes > 1 or want.is_float:
            raise _Mismatch
        loop = self.operands.loop()
        memory = UOp(Op.PARAM, want, (), ParamArg(0, MEMORY_SIZE))
        store = UOp(
            Op.STORE, void, (UOp(Op.INDEX, want, (memory, loop)), self.operands.expression(want))
        )
        return UOp(Op.END, void, (store, loop, UOp.const(loop.dtype, 0)))

    def make_range(self, pattern: Pattern, want: DType) -> UOp:
        del pattern
        if want.kind != "index" or want.lanes > 1:
            raise _Mismatch
        return self.operands.choose((self.operands.loop(), UOp.range(1, 0, AxisType.LOOP)))

    def make_index(self, pattern: Pattern, want: DType) -> UOp:
        del pattern
        if want.lanes > 1:
            raise _Mismatch
        return self.operands.read(
            want, self.operands.expression(index), self.operands.expression(bool_)
        )

    def make_broadcast(self, pattern: Pattern, want: DType) -> UOp:
        if want.lanes == 1:
            raise _Mismatch
        source = next(iter(pattern.src or ()), None)
        inner = (
            self.operands.variable(want.scalar)
            if source is None
            else self._make(source, want.scalar)
        )
        return UOp(Op.BROADCAST, want, (inner,))


def _is_constant(pattern: Pattern) -> bool:
    return pattern.ops is not None and pattern.ops <= _CONSTANTS


_SPECIAL: Final = {
    Op.REDUCE: _Generator.make_reduce,
    Op.END: _Generator.make_end,
    Op.RANGE: _Generator.make_range,
    Op.INDEX: _Generator.make_index,
    Op.BROADCAST: _Generator.make_broadcast,
    **{op: partial(_Generator.make_moved, op=op) for op in MOVED},
}

MAIN_DTYPES: Final = (
    *(d for d in ALL_DTYPES if d.kind not in ("void", "index")),
    index,
    int32.vec(2),
    uint8.vec(2),
    index.vec(2),
    bool_.vec(2),
    float32.vec(2),
)
"""Every dtype, and vectors of each kind."""
