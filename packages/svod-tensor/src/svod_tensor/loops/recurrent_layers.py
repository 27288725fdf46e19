"""Layers and directions of recurrent cells: each is a loop over the steps that reads the output of
the previous layer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import NamedTuple, NoReturn, TypeAlias

from svod_dtype import DType, float32, promote_types
from svod_ir import OperandError, ShapeError, SInt, format_shape
from svod_tensor.errors import SymbolicShapeError
from svod_tensor.loops.scan import scan
from svod_tensor.ops.core.gradient_rules import collapse, gradient_rule, with_rule
from svod_tensor.ops.core.rounding import accumulation_dtype
from svod_tensor.tensor import Tensor

__all__ = ["CellKind", "State", "Weights", "run_layers"]

Weights: TypeAlias = Mapping[str, Tensor] | Sequence[Tensor]
"""Weights by PyTorch's names, such as `weight_ih_l0` and `bias_hh_l1_reverse`, or in PyTorch's order."""

State: TypeAlias = tuple[Tensor, ...]
"""The carry of a cell, tensors of shape (batch, width). The first one is its output."""


class _CellWeights(NamedTuple):
    """The weights of one layer in one direction, in the caller's dtypes.

    Attributes:
        ih: input weights, of shape (gates * width, inputs).
        hh: recurrent weights, of shape (gates * width, width).
        bias_ih: input bias, of shape (gates * width,); None without biases.
        bias_hh: recurrent bias, of the same shape; None without biases.
    """

    ih: Tensor
    hh: Tensor
    bias_ih: Tensor | None = None
    bias_hh: Tensor | None = None


class CellKind(NamedTuple):
    """A kind of recurrent cell.

    Attributes:
        operation: the operation's name in errors.
        n_gates: the number of gates.
        n_states: the number of tensors in its state.
        step: a function from the state and the pre-activations of the gates, of shape (gates, batch,
            width), to the next state.
        separates_products: whether the step gets the products of the input and of the hidden state
            separately, instead of their sum.
    """

    operation: str
    n_gates: int
    n_states: int
    step: Callable[[State, Sequence[Tensor]], State]
    separates_products: bool = False


def run_layers(
    kind: CellKind,
    x: Tensor,
    weights: Weights,
    hx: State | None,
    *,
    n_layers: int,
    is_bidirectional: bool,
    is_batch_first: bool,
) -> tuple[Tensor, State]:
    """The output of the last layer, and the final states of all layers."""
    n_directions = 2 if is_bidirectional else 1
    if n_layers < 1:
        raise OperandError(operation=kind.operation, found=n_layers, expected="at least one layer")
    if x.ndim not in (2, 3):
        raise ShapeError(
            operation=kind.operation,
            shape=x.shape,
            problem=(
                f"expected an input of shape (steps, batch, inputs), got {format_shape(x.shape)}"
            ),
        )
    cells = _arrange(kind, weights, n_layers, n_directions)
    is_batched = x.ndim == 3
    dtype = _promote(
        [x, *(t for cell in cells.values() for t in cell if t is not None), *(hx or ())]
    )
    states = _make_states(kind, x, cells, hx, is_batch_first=is_batch_first)
    if not is_batched:
        x = x.unsqueeze(1)
    elif is_batch_first:
        x = x.transpose(0, 1)
    # In a narrow float, each step would round the state, and the errors would accumulate.
    x = x.cast(accumulation_dtype(dtype))
    ends: list[State] = []
    for layer in range(n_layers):
        outputs: list[Tensor] = []
        for name in list(cells)[layer * n_directions : (layer + 1) * n_directions]:
            begin = tuple([s[len(ends)].cast(x.dtype) for s in states])
            end, output = _run_cell(kind, name, cells[name], begin, x, reverse=len(outputs) > 0)
            ends.append(end)
            outputs.append(output)
        # As in PyTorch, the next layer reads the outputs of both directions.
        x = outputs[0].concat(*outputs[1:], axis=2)
    last = [Tensor.stack([end[k] for end in ends]).cast(dtype) for k in range(kind.n_states)]
    if not is_batched:
        return x.squeeze(1).cast(dtype), tuple([state.squeeze(1) for state in last])
    return (x.transpose(0, 1) if is_batch_first else x).cast(dtype), tuple(last)


def _run_cell(
    kind: CellKind, name: str, weights: _CellWeights, begin: State, x: Tensor, *, reverse: bool
) -> tuple[State, Tensor]:
    """The final state, and the outputs of all steps."""
    batch, width = begin[0].shape
    width = _check_weights(kind, name, weights, x, width)
    bias_ih = None if weights.bias_ih is None else weights.bias_ih.cast(x.dtype)
    bias_hh = None if weights.bias_hh is None else weights.bias_hh.cast(x.dtype)
    inputs = _add(x.linear(weights.ih.cast(x.dtype)), bias_ih)
    # Once for all steps, outside of the loop.
    if not kind.separates_products:
        inputs = _add(inputs, bias_hh)
    row = None if bias_hh is None else bias_hh.unsqueeze(0)
    project = _make_projection(weights.hh.cast(x.dtype), kind.n_gates, width, batch)

    def run_step(state: State, inputs: Tensor) -> tuple[State, Tensor]:
        h = state[0]
        if kind.separates_products:
            gates = [inputs.reshape(batch, kind.n_gates, width).transpose(0, 1), project(h, row)]
        else:
            gates = [project(h, inputs)]
        state = kind.step(state, gates)
        return state, state[0]

    return scan(run_step, begin, inputs, reverse=reverse)


_PANEL = 32
"""Columns of a panel of the recurrent weights: as many as the vectors of a register tile have lanes."""


def _make_projection(
    weight: Tensor, n_gates: int, width: int, batch: SInt
) -> Callable[[Tensor, Tensor | None], Tensor]:
    """Make the projection of the hidden state to the gates.

    The projection takes the hidden state, of shape (batch, width), and an addend, of shape (batch,
    gates * width) or (1, gates * width), and returns the pre-activations, of shape (gates, batch,
    width).

    The weights are packed once for all steps, in panels of columns that a product reads
    contiguously. A batch of one row reads each weight once, so that packing would not pay. The
    derivative rule refers to the unpacked weights."""
    # A panel must not contain columns of two gates.
    size = _PANEL if width % _PANEL == 0 else width
    n_rows, n_panels = n_gates * width, n_gates * width // size
    panels = weight.reshape(n_panels, size, width).transpose(1, 2)
    back = weight.reshape(n_rows, width // size, size).transpose(0, 1)
    if not isinstance(batch, int) or batch > 1:
        panels, back = panels.contiguous(), back.contiguous()

    def project(h: Tensor, added: Tensor | None) -> Tensor:
        product = h @ panels
        if added is not None:
            # In panels too, so that the addition is fused into the product's epilogue.
            product = product + added.reshape(added.shape[0], n_panels, size).transpose(0, 1)
        product = product.transpose(0, 1).reshape(batch, n_rows)
        product = with_rule(
            _project_gradient,
            product,
            (h, weight, back) if added is None else (h, weight, back, added),
        )
        return product.reshape(batch, n_gates, width).transpose(0, 1)

    return project


@gradient_rule("project")
def _project_gradient(
    cotangent: Tensor, value: Tensor, operands: Sequence[Tensor], wanted: Sequence[bool]
) -> list[Tensor | None]:
    h, _, panels, *added = operands
    # None for the panels, which are a copy of `weight`: the whole derivative goes to that operand.
    cotangents: list[Tensor | None] = [None, None, None, *(None for _ in added)]
    if wanted[0]:
        cotangents[0] = (cotangent @ panels).transpose(0, 1).reshape(h.shape)
    if wanted[1]:
        cotangents[1] = cotangent.transpose(0, 1) @ h
    if added and wanted[3]:
        cotangents[3] = collapse(cotangent, added[0].shape)
    return cotangents


def _add(x: Tensor, bias: Tensor | None) -> Tensor:
    return x if bias is None else x + bias


def _promote(tensors: Sequence[Tensor]) -> DType:
    dtype = reduce(promote_types, [t.dtype for t in tensors])
    return dtype if dtype.is_float else float32


def _make_states(
    kind: CellKind,
    x: Tensor,
    cells: Mapping[str, _CellWeights],
    hx: State | None,
    *,
    is_batch_first: bool,
) -> list[Tensor]:
    """The initial states, each of shape (cells, batch, width)."""
    batch = () if x.ndim == 2 else x.shape[0 if is_batch_first else 1 : 1 if is_batch_first else 2]
    first = next(iter(cells.values())).hh
    expected = (len(cells), *batch, *first.shape[-1:])
    if hx is None:
        hx = tuple([Tensor.zeros(expected, dtype=x.dtype) for _ in range(kind.n_states)])
    for state in hx:
        if state.shape != expected:
            _refuse_shape(kind, state, "hx", expected)
    return [s if len(batch) else s.unsqueeze(1) for s in hx]


def _check_weights(kind: CellKind, name: str, weights: _CellWeights, x: Tensor, width: SInt) -> int:
    """Check the shapes of the weights, and return the width.

    Raises:
        SymbolicShapeError: if the width is symbolic.
        ShapeError: if a shape does not match.
    """
    if not isinstance(width, int):
        raise SymbolicShapeError(operation=kind.operation, shape=weights.hh.shape)
    rows = kind.n_gates * width
    expected = ((rows, x.shape[-1]), (rows, width), (rows,), (rows,))
    for name_of_weight, tensor, shape in zip(_NAMES, weights, expected, strict=True):
        if tensor is not None and tensor.shape != shape:
            _refuse_shape(kind, tensor, f"{name_of_weight}_{name}", shape)
    return width


def _refuse_shape(
    kind: CellKind, tensor: Tensor, name: str, expected: tuple[SInt, ...]
) -> NoReturn:
    problem = f"expected {name} of shape {format_shape(expected)}, got {format_shape(tensor.shape)}"
    raise ShapeError(operation=kind.operation, shape=tensor.shape, problem=problem)


_NAMES = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")


def _arrange(
    kind: CellKind, weights: Weights, n_layers: int, n_directions: int
) -> dict[str, _CellWeights]:
    """The weights of each cell by the suffix of their names, layer by layer."""
    cells = [
        f"l{layer}{suffix}"
        for layer in range(n_layers)
        for suffix in ("", "_reverse")[:n_directions]
    ]
    if isinstance(weights, Mapping):
        has_biases = any(name.startswith("bias") for name in weights)
    else:
        # A sequence has two weights for each cell without biases, and four with them.
        has_biases = len(weights) != 2 * len(cells)
    kinds = _NAMES if has_biases else _NAMES[:2]
    names = [f"{prefix}_{cell}" for cell in cells for prefix in kinds]
    tensors = _get_named(kind, weights, names) if isinstance(weights, Mapping) else list(weights)
    if len(tensors) != len(names):
        _refuse(kind, f"{len(tensors)} weights", names)
    n = len(kinds)
    return {cell: _CellWeights(*tensors[i * n : (i + 1) * n]) for i, cell in enumerate(cells)}


def _get_named(kind: CellKind, weights: Mapping[str, Tensor], names: Sequence[str]) -> list[Tensor]:
    missing, unknown = (
        [n for n in names if n not in weights],
        [n for n in weights if n not in names],
    )
    if missing:
        _refuse(kind, f"weights without {', '.join(missing)}", names)
    if unknown:
        _refuse(kind, f"weights with {', '.join(unknown)}", names)
    return [weights[name] for name in names]


def _refuse(kind: CellKind, description: str, names: Sequence[str]) -> NoReturn:
    hint = (
        "num_layers and bidirectional determine the names; either all products have biases or none"
    )
    raise OperandError(
        operation=kind.operation,
        found=description,
        expected=f"the weights {', '.join(names)}",
        hint=hint,
    )
