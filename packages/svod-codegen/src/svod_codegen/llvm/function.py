"""Text of an LLVM function under construction: lines, names of values, blocks, declarations."""

from __future__ import annotations

from svod_codegen._names import get_name
from svod_codegen.llvm.text import mask_text, type_text
from svod_dtype import DType, int64
from svod_ir import Target, UOp

__all__ = ["FunctionWriter"]


class FunctionWriter:
    """Writer of the body of a function.

    `names` maps each node that has a value to its operand text, `memory_tags` maps buffers to the
    metadata of their accesses, and `branch_tags` maps loops to the metadata of the branch into
    them."""

    __slots__ = (
        "_n_blocks",
        "_n_values",
        "block",
        "branch_tags",
        "declarations",
        "entry",
        "lines",
        "memory_tags",
        "names",
        "target",
    )

    def __init__(self, target: Target) -> None:
        self.lines: list[str] = []
        self.entry: list[str] = []
        self.names: dict[UOp, str] = {}
        # A dict, so that each function is declared once, in the order of use.
        self.declarations: dict[str, None] = {}
        self.memory_tags: dict[UOp, str] = {}
        self.target = target
        self.branch_tags: dict[UOp, str] = {}
        self.block = "entry"
        self._n_values = 0
        self._n_blocks = 0

    def emit(self, instruction: str) -> str:
        """Append an instruction and return the name of its value."""
        self._n_values += 1
        name = f"%v{self._n_values}"
        self.lines.append(f"  {name} = {instruction}")
        return name

    def emit_at_entry(self, instruction: str) -> str:
        """Append an instruction to the entry block and return the name of its value."""
        self._n_values += 1
        name = f"%v{self._n_values}"
        # SROA promotes only allocas of the entry block, and arguments are loaded once.
        self.entry.append(f"  {name} = {instruction}")
        return name

    def do(self, instruction: str) -> None:
        """Append an instruction without a value."""
        self.lines.append(f"  {instruction}")

    def call(
        self, result: str, function: str, operands: str, *, flags: str = "", parameters: str
    ) -> str:
        """Declare and call a function or intrinsic that returns a value."""
        self.declarations[f"declare {result} @{function}({parameters})"] = None
        return self.emit(f"call {flags}{result} @{function}({operands})")

    def call_same(self, function: str, dtype: str, *operands: str, flags: str = "") -> str:
        """Call an intrinsic whose operands and result all have the type `dtype`."""
        typed = ", ".join(f"{dtype} {o}" for o in operands)
        return self.call(
            dtype, function, typed, flags=flags, parameters=", ".join([dtype] * len(operands))
        )

    def new_label(self, stem: str) -> str:
        self._n_blocks += 1
        return f"{stem}{self._n_blocks}"

    def start_block(self, label: str) -> None:
        """Start a block; the previous one must have ended with a branch."""
        self.lines.append(f"{label}:")
        self.block = label

    def value(self, node: UOp) -> str:
        """Return the operand text of a node's value.

        Raises:
            RenderError: if the linear list uses the node before its definition.
        """
        return get_name(self.names, node)

    def typed(self, node: UOp) -> str:
        """Return the operand text of a node's value with its type."""
        return f"{type_text(node.dtype)} {self.value(node)}"

    def splat(self, dtype: DType, scalar: str) -> str:
        """Make a vector of `dtype` whose lanes are all the scalar operand `scalar`."""
        vector, element = type_text(dtype), type_text(dtype.scalar)
        # Operands that begin with % are values, all others constants.
        if scalar[0] != "%":
            return f"splat ({element} {scalar})"
        # LLVM recognizes this pair of instructions as a broadcast.
        first = self.emit(f"insertelement {vector} poison, {element} {scalar}, i64 0")
        return self.emit(
            f"shufflevector {vector} {first}, {vector} poison, <{dtype.lanes} x i32>"
            " zeroinitializer"
        )

    def lanes(self, dtype: DType, scalars: list[str]) -> str:
        """Make a vector of `dtype` from scalar operands."""
        vector, element = type_text(dtype), type_text(dtype.scalar)
        if all(s == scalars[0] for s in scalars):
            return self.splat(dtype, scalars[0])
        # Constant lanes need no instructions.
        start = [f"{element} {s if s[0] != '%' else 'poison'}" for s in scalars]
        name = "<" + ", ".join(start) + ">" if any(s[0] != "%" for s in scalars) else "poison"
        for position, scalar in enumerate(scalars):
            if scalar[0] == "%":
                name = self.emit(
                    f"insertelement {vector} {name}, {element} {scalar}, i64 {position}"
                )
        return name

    def extract(self, dtype: DType, vector: str, lane: int) -> str:
        """Extract a lane of a vector operand of type `dtype`."""
        return self.emit(f"extractelement {type_text(dtype)} {vector}, i64 {lane}")

    def shuffle(
        self, dtype: DType, left: str, right: str, lanes: tuple[int, ...] | list[int] | range
    ) -> str:
        """Shuffle two vectors of type `dtype`; lanes are indices into their concatenation."""
        vector = type_text(dtype)
        return self.emit(f"shufflevector {vector} {left}, {vector} {right}, {mask_text(lanes)}")

    def wide_index(self, node: UOp) -> str:
        """Extend an index operand to i64, with the same number of lanes."""
        if node.dtype.itemsize == 8:
            return self.value(node)
        # A constant has no type of its own in the text.
        if self.value(node)[0] != "%" and node.dtype.lanes == 1:
            return self.value(node)
        extend = "zext" if node.dtype.is_unsigned else "sext"
        return self.emit(f"{extend} {self.typed(node)} to {type_text(int64.vec(node.dtype.lanes))}")
