"""The text form of graphs, which parses back to the identical node.

One line for each node, operands first; the last line is the graph:

    %0 = CONST index [16]
    %1 = RANGE index %0 [0, LOOP]
    %2 = PARAM f32 [0, 16]
    %3 = INDEX f32 %2, %1
    %4 = NEG f32 %3
    %5 = STORE %3, %4
    %6 = END %5, %1

After the op come the dtype (omitted for void), the operands, and in brackets the fields of `arg`:
numbers, `true`, `false`, `none`, names, "text", hex"00ff", tuples in parentheses, and opts as in
`UPCAST(0, 4)`. Names of nodes are free (`%acc`); `#` begins a comment.

This is the printed form. A form for writing by hand is shorter: an operand may be an expression,
which denotes exactly the nodes that it names, and a line that is not referenced needs no name. The
same kernel:

    %out = PARAM f32 [0, 16]
    %i = RANGE index 16 [0, LOOP]
    %store = STORE %out[%i], -%out[%i]
    END %store, %i

Expressions have Python's operators, functions (`max(%x, 1.0)`, `where(%c, %x, %y)`,
`load(%x[%i])`), casts (`f32(%x)`), printed nodes in parentheses, and locations, optionally with a
gate and lanes (`%x[%i if %c : 4]`). Brackets directly after a name hold indices; brackets after a
space hold the arg. A number is a constant, rounded to the dtype of the other operand, to `index`
in indices, and otherwise to the line's dtype; `i32(0)` states a dtype."""

from __future__ import annotations

import copyreg

from svod_ir.text.expression import format_expression
from svod_ir.text.parser import parse_graph
from svod_ir.text.printer import format_arg, print_graph
from svod_ir.uop import UOp

__all__ = ["format_arg", "format_expression", "parse_graph", "print_graph"]

# Pickling and copying go through the text form, which parses back to the identical node.
copyreg.pickle(UOp, lambda node: (parse_graph, (print_graph(node),)))
