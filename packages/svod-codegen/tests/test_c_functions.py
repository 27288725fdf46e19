"""C functions as programs: what they get, in plans' batches and alone."""

from __future__ import annotations

from array import array

import pytest

from svod_codegen._loader import load_object
from svod_codegen.c_functions import MAX_ARGUMENTS, BufferAt, CFunction
from svod_codegen.launcher import CPU_LAUNCHER
from svod_codegen.llvm.cached import default_compiler
from svod_device import Launch

STORE_ALL = "define i32 @store_all({parameters}) {{\n{body}\n  ret i32 3\n}}\n".format(
    parameters=", ".join(f"i64 %x{n}" for n in range(MAX_ARGUMENTS)),
    body="\n".join(
        [
            "  %out = inttoptr i64 %x0 to ptr",
            *(
                f"  %at{n} = getelementptr i64, ptr %out, i64 {n}\n  store i64 %x{n}, ptr %at{n}"
                for n in range(MAX_ARGUMENTS)
            ),
        ]
    ),
)
"""Stores all arguments at the first, which is an address."""


def make_program(*arguments: int | BufferAt) -> CFunction:
    code = load_object(default_compiler().compile_source(STORE_ALL), ["store_all"])
    return CFunction("store", code.addresses["store_all"], arguments, kept=code)


def address_of(data: array[int]) -> int:
    return data.buffer_info()[0]


def test_a_function_gets_numbers_and_addresses_of_buffers() -> None:
    out, other = (array("q", [-1] * MAX_ARGUMENTS) for _ in range(2))
    program = make_program(BufferAt(1), 5, BufferAt(0), -7, 2**63 + 1, 11, 12, 13, 14, BufferAt(1))
    program([address_of(other), address_of(out)], program.values, (1, 1, 1))
    first, second = address_of(other), address_of(out)
    assert out.tolist() == [second, 5, first, -7, -(2**63) + 1, 11, 12, 13, 14, second]


def test_missing_arguments_are_zero() -> None:
    out = array("q", [-1] * MAX_ARGUMENTS)
    program = make_program(BufferAt(0), 8)
    program([address_of(out)], program.values, (1, 1, 1))
    assert out.tolist() == [address_of(out), 8] + [0] * (MAX_ARGUMENTS - 2)


def test_a_function_runs_in_a_batch_on_the_addresses_of_each_run() -> None:
    blocks = [array("q", [-1] * MAX_ARGUMENTS) for _ in range(2)]
    program = make_program(BufferAt(0), 8)
    addresses, values = array("Q", [address_of(blocks[0])]), array("q", program.values)
    launch = Launch(program, addresses, values, (1, 1, 1), None, 0)
    table = CPU_LAUNCHER.make_table([launch])
    CPU_LAUNCHER.run(table)
    addresses[0] = address_of(blocks[1])
    CPU_LAUNCHER.run(table)
    assert [block[:2].tolist() for block in blocks] == [[address_of(b), 8] for b in blocks]
    assert program.timed_call(addresses, values, (1, 1, 1)) >= 0


def test_too_many_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="store has 11 arguments, more than 10"):
        make_program(*range(MAX_ARGUMENTS + 1))
