"""The text form of graphs, which parses back to the identical node.

One line for each node, operands first; the last line is the graph:

    %0 = CONST index [16]
    %1 = RANGE index %0 [0, LOOP]
    %2 = PARAM f32 [0, 16]
    %3 = INDEX f32 %2, %1
    %4 = NEG f32 %3
    %5 = STORE %3, %4
    %6 = END %5, %1

After the op come the dtype (left out for void), the operands, and in brackets what `arg` holds:
numbers, `true`, `false`, `none`, names, "text", hex"00ff", tuples in parentheses, and opts as in
`UPCAST(0, 4)`.  Names of nodes are free (`%acc`); `#` begins a comment.

That is what is printed. What is written by hand may be shorter: an operand may be an expression,
which stands for exactly the nodes that it names, and a line that nothing refers to needs no name.
The same kernel:

    %out = PARAM f32 [0, 16]
    %i = RANGE index 16 [0, LOOP]
    %store = STORE %out[%i], -%out[%i]
    END %store, %i

Expressions have Python's operators, functions (`max(%x, 1.0)`, `where(%c, %x, %y)`,
`load(%x[%i])`), casts (`f32(%x)`), nodes as they are printed in parentheses, and locations, with a
gate and with lanes if need be (`%x[%i if %c : 4]`). Brackets that touch a name hold positions, and
those after a space the arg. A number is a constant, rounded to the dtype of what it stands beside,
to `index` as a position, and to the line's dtype otherwise; `i32(0)` says which."""

from __future__ import annotations

import copyreg

from svod_ir.text.expression import format_expression
from svod_ir.text.parser import parse_graph
from svod_ir.text.printer import format_arg, print_graph
from svod_ir.uop import UOp

__all__ = ["format_arg", "format_expression", "parse_graph", "print_graph"]

# A pickle, and a copy, is the text read again: the identical node where there is one.
copyreg.pickle(UOp, lambda node: (parse_graph, (print_graph(node),)))
