"""Layers and directions of recurrent cells: each is a loop over the steps, and reads what the layer
before gives.
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
"""By PyTorch's names, such as `weight_ih_l0` and `bias_hh_l1_reverse`, or in PyTorch's order."""

State: TypeAlias = tuple[Tensor, ...]
"""What a cell carries from step to step, each of shape (batch, width); the first is its output."""


class _CellWeights(NamedTuple):
    """The weights of one layer in one direction, in the dtypes that the caller has them in.

    Attributes:
        ih: for the inputs, of shape (gates * width, inputs).
        hh: for the hidden state, of shape (gates * width, width).
        bias_ih: of shape (gates * width,); None where there are no biases.
        bias_hh: likewise.
    """

    ih: Tensor
    hh: Tensor
    bias_ih: Tensor | None = None
    bias_hh: Tensor | None = None


class CellKind(NamedTuple):
    """A kind of cell.

    Attributes:
        operation: what errors call it.
        n_gates: how often the rows of its weights have the width.
        n_states: of how many tensors its state is.
        step: from its state, and from what the gates get, of shape (gates, batch, width), to the
            next state.
        keeps_apart: whether the step gets what the inputs and what the hidden state add to the
            gates one by one; otherwise their sum.
    """

    operation: str
    n_gates: int
    n_states: int
    step: Callable[[State, Sequence[Tensor]], State]
    keeps_apart: bool = False


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
    """The output of the last layer, and each of the states of all layers after the last step."""
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
    x = x.cast(accumulation_dtype(dtype))
    ends: list[State] = []
    for layer in range(n_layers):
        made: list[Tensor] = []
        for name in list(cells)[layer * n_directions : (layer + 1) * n_directions]:
            begin = tuple([s[len(ends)].cast(x.dtype) for s in states])
            end, output = _run_cell(kind, name, cells[name], begin, x, reverse=len(made) > 0)
            ends.append(end)
            made.append(output)
        x = made[0].concat(*made[1:], axis=2)
    last = [Tensor.stack([end[k] for end in ends]).cast(dtype) for k in range(kind.n_states)]
    if not is_batched:
        return x.squeeze(1).cast(dtype), tuple([state.squeeze(1) for state in last])
    return (x.transpose(0, 1) if is_batch_first else x).cast(dtype), tuple(last)


def _run_cell(
    kind: CellKind, name: str, weights: _CellWeights, begin: State, x: Tensor, *, reverse: bool
) -> tuple[State, Tensor]:
    """The state after the last step, and the outputs after each."""
    batch, width = begin[0].shape
    width = _check_weights(kind, name, weights, x, width)
    bias_ih = None if weights.bias_ih is None else weights.bias_ih.cast(x.dtype)
    bias_hh = None if weights.bias_hh is None else weights.bias_hh.cast(x.dtype)
    inputs = _add(x.linear(weights.ih.cast(x.dtype)), bias_ih)
    if not kind.keeps_apart:
        inputs = _add(inputs, bias_hh)
    row = None if bias_hh is None else bias_hh.unsqueeze(0)
    project = _make_projection(weights.hh.cast(x.dtype), kind.n_gates, width, batch)

    def run_step(state: State, inputs: Tensor) -> tuple[State, Tensor]:
        h = state[0]
        if kind.keeps_apart:
            gates = [inputs.reshape(batch, kind.n_gates, width).transpose(0, 1), project(h, row)]
        else:
            gates = [project(h, inputs)]
        state = kind.step(state, gates)
        return state, state[0]

    return scan(run_step, begin, inputs, reverse=reverse)


_PANEL = 32
"""Columns that the product of a step reads beside each other: as many as the vectors of a tile have
lanes.
"""


def _make_projection(
    weight: Tensor, n_gates: int, width: int, batch: SInt
) -> Callable[[Tensor, Tensor | None], Tensor]:
    """From the hidden state, of shape (batch, width), and what is added to its product with the
    weights, of shape (batch, gates * width) or (1, gates * width), to what the gates get, of shape
    (gates, batch, width).

    The weights are laid out once for all steps: for several rows in panels of columns, each of
    which a product reads from end to end; one row reads them as they come. Gradients read them as
    they are, and are those of the weights as they are."""
    size = _PANEL if width % _PANEL == 0 else width
    n_rows, n_panels = n_gates * width, n_gates * width // size
    panels = weight.reshape(n_panels, size, width).transpose(1, 2)
    back = weight.reshape(n_rows, width // size, size).transpose(0, 1)
    if not isinstance(batch, int) or batch > 1:
        panels, back = panels.contiguous(), back.contiguous()

    def project(h: Tensor, added: Tensor | None) -> Tensor:
        made = h @ panels
        if added is not None:
            # As panels, so that the product adds it before it stores.
            made = made + added.reshape(added.shape[0], n_panels, size).transpose(0, 1)
        made = made.transpose(0, 1).reshape(batch, n_rows)
        made = with_rule(
            _project_gradient,
            made,
            (h, weight, back) if added is None else (h, weight, back, added),
        )
        return made.reshape(batch, n_gates, width).transpose(0, 1)

    return project


@gradient_rule("project")
def _project_gradient(
    cotangent: Tensor, value: Tensor, operands: Sequence[Tensor], wanted: Sequence[bool]
) -> list[Tensor | None]:
    h, _, panels, *added = operands
    parts: list[Tensor | None] = [None, None, None, *(None for _ in added)]
    if wanted[0]:
        parts[0] = (cotangent @ panels).transpose(0, 1).reshape(h.shape)
    if wanted[1]:
        parts[1] = cotangent.transpose(0, 1) @ h
    if added and wanted[3]:
        parts[3] = collapse(cotangent, added[0].shape)
    return parts


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
    """What each state is before the first step, of shape (cells, batch, width)."""
    batch = () if x.ndim == 2 else x.shape[0 if is_batch_first else 1 : 1 if is_batch_first else 2]
    first = next(iter(cells.values())).hh
    wanted = (len(cells), *batch, *first.shape[-1:])
    if hx is None:
        hx = tuple([Tensor.zeros(wanted, dtype=x.dtype) for _ in range(kind.n_states)])
    for state in hx:
        if state.shape != wanted:
            _refuse_shape(kind, state, "hx", wanted)
    return [s if len(batch) else s.unsqueeze(1) for s in hx]


def _check_weights(kind: CellKind, name: str, weights: _CellWeights, x: Tensor, width: SInt) -> int:
    """The width, which is known."""
    if not isinstance(width, int):
        raise SymbolicShapeError(operation=kind.operation, shape=weights.hh.shape)
    rows = kind.n_gates * width
    wanted = ((rows, x.shape[-1]), (rows, width), (rows,), (rows,))
    for which, tensor, shape in zip(_NAMES, weights, wanted, strict=True):
        if tensor is not None and tensor.shape != shape:
            _refuse_shape(kind, tensor, f"{which}_{name}", shape)
    return width


def _refuse_shape(kind: CellKind, tensor: Tensor, name: str, wanted: tuple[SInt, ...]) -> NoReturn:
    problem = f"expected {name} of shape {format_shape(wanted)}, got {format_shape(tensor.shape)}"
    raise ShapeError(operation=kind.operation, shape=tensor.shape, problem=problem)


_NAMES = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")


def _arrange(
    kind: CellKind, weights: Weights, n_layers: int, n_directions: int
) -> dict[str, _CellWeights]:
    """The weights of each cell by the end of their names, layer by layer."""
    cells = [
        f"l{layer}{suffix}"
        for layer in range(n_layers)
        for suffix in ("", "_reverse")[:n_directions]
    ]
    if isinstance(weights, Mapping):
        has_biases = any(name.startswith("bias") for name in weights)
    else:
        has_biases = len(weights) != 2 * len(cells)
    kinds = _NAMES if has_biases else _NAMES[:2]
    wanted = [f"{which}_{cell}" for cell in cells for which in kinds]
    tensors = _get_named(kind, weights, wanted) if isinstance(weights, Mapping) else list(weights)
    if len(tensors) != len(wanted):
        _refuse(kind, f"{len(tensors)} weights", wanted)
    n = len(kinds)
    return {
        cell: _CellWeights(*tensors[number * n : (number + 1) * n])
        for number, cell in enumerate(cells)
    }


def _get_named(
    kind: CellKind, weights: Mapping[str, Tensor], wanted: Sequence[str]
) -> list[Tensor]:
    missing, unknown = (
        [n for n in wanted if n not in weights],
        [n for n in weights if n not in wanted],
    )
    if missing:
        _refuse(kind, f"weights without {', '.join(missing)}", wanted)
    if unknown:
        _refuse(kind, f"weights with {', '.join(unknown)}", wanted)
    return [weights[name] for name in wanted]


def _refuse(kind: CellKind, found: str, wanted: Sequence[str]) -> NoReturn:
    hint = (
        "num_layers and bidirectional say which there are; there are biases for each product or for"
        " none"
    )
    raise OperandError(
        operation=kind.operation,
        found=found,
        expected=f"the weights {', '.join(wanted)}",
        hint=hint,
    )
