"""Text form of opts."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from svod_ir.args import Opt, OptOp, format_opts, parse_opts
from svod_ir.errors import ParseError

AMOUNTS = st.one_of(st.none(), st.integers(0, 4096))
OPTS = st.builds(
    lambda op, axis, amount: Opt(op, axis, None if axis is None else amount),
    st.sampled_from(OptOp),
    AMOUNTS,
    AMOUNTS,
)


@given(st.lists(OPTS))
def test_formatted_opts_parse_back(opts: list[Opt]) -> None:
    assert parse_opts(format_opts(opts)) == tuple(opts)


def test_opts_parse_with_any_spacing_and_separators() -> None:
    expected = (
        Opt(OptOp.UPCAST, 0, 4),
        Opt(OptOp.PACK, 1),
        Opt(OptOp.NOLOCALS),
        Opt(OptOp.SWAP, 0, 2),
    )
    assert parse_opts("UPCAST(0,4) PACK(1) NOLOCALS SWAP(0,2)") == expected
    assert parse_opts(" UPCAST( 0 , 4 ),PACK(1), NOLOCALS(),\n SWAP(0, 2),") == expected
    assert parse_opts("  ") == ()


@pytest.mark.parametrize(
    "text",
    [
        "UPCAST(0, 4",
        "TILE(0, 4)",
        "upcast(0, 4)",
        "UPCAST(0 4)",
        "UPCAST(0, -4)",
        "UPCAST(0, 4) and",
    ],
)
def test_invalid_opts_are_errors_that_show_the_text(text: str) -> None:
    with pytest.raises(ParseError, match="not an Opt") as raised:
        parse_opts(text)
    assert "UPCAST, UNROLL" in str(raised.value)
