"""In-process compilation of LLVM IR to object code for the host.

The renderer emits full-width vectors, so the pipeline does not vectorize: SROA promotes the
accumulators' allocas to registers, and the code generator does the remaining work (addressing,
common subexpressions, scheduling, fused multiply-add from the `contract` flag).  On elementwise,
reduction and register-tiled matmul kernels, the code is as fast as with LLVM's O3, at a third of the
compile time; instruction combining, GVN and loop passes only add compile time.

Threads compile in parallel, each with its own context and target machine, without llvmlite's lock
(see `svod_codegen.llvm.binding`).

LLVM aborts the process if it cannot select an instruction, so the renderer must not emit: intrinsics
without a lowering on the host (`llvm.exp` on `half`, saturating casts of `bfloat` vectors, masked
gathers of odd types), invalid inline assembly, vectors whose lane count is no power of two as
arguments of reductions, `musttail`, scalable vectors, and address spaces other than 0. Malformed
text, type errors and broken SSA are safe: they raise `CompileError`.
"""

from __future__ import annotations

import re
from collections import defaultdict
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Final

from svod_codegen.errors import CompileError
from svod_codegen.llvm.binding import load_binding, unlocked
from svod_codegen.llvm.target import HostCpu, host_cpu

if TYPE_CHECKING:
    from collections.abc import Generator

    from svod_codegen.llvm.binding import Binding, Module, TargetMachine

__all__ = ["COMPILER_FLAGS", "compile_assembly", "compile_ir"]

_OPT_LEVEL: Final = 2
# In the small code model, position-independent code uses constants as memory operands; the JIT's
# default, the large model, needs a register and an instruction for the address of each constant.
_RELOCATION, _CODE_MODEL = "pic", "small"

COMPILER_FLAGS: Final = f"sroa;O{_OPT_LEVEL};{_RELOCATION};{_CODE_MODEL}"
"""Options that determine the code besides the IR, the CPU and the version of LLVM; part of the cache
keys.
"""


def compile_ir(source: str, *, cpu: HostCpu | None = None) -> bytes:
    """Compile one module to a relocatable object.

    Raises:
        CompileError: The text does not parse or breaks a rule of the IR.
    """
    with _optimized_module(source, cpu or host_cpu()) as (machine, module):
        return machine.emit_object(module)


def compile_assembly(source: str, *, cpu: HostCpu | None = None) -> str:
    """Compile one module to assembly text, for display and for tests of instructions."""
    with _optimized_module(source, cpu or host_cpu()) as (machine, module):
        return machine.emit_assembly(module)


_idle_machines: defaultdict[HostCpu, list[TargetMachine]] = defaultdict(list)
"""Target machines that no thread uses. They are reused, since creating one takes as long as compiling
a small kernel.
"""


@contextmanager
def _optimized_module(source: str, cpu: HostCpu) -> Generator[tuple[TargetMachine, Module]]:
    """Parse, verify and optimize a module, with a machine to emit it; errors of LLVM inside are
    raised as `CompileError`.
    """
    binding = load_binding()
    with unlocked(), _borrow_machine(binding, cpu) as machine:
        try:
            # Closed explicitly, since the garbage collector may run in another thread that compiles.
            with (
                closing(binding.create_context()) as context,
                closing(binding.parse_assembly(source, context)) as module,
            ):
                # Sources have no target; passes before code generation would assume a generic one.
                module.data_layout, module.triple = str(machine.target_data), machine.triple
                module.verify()
                _run_passes(binding, machine, module)
                yield machine, module
        except RuntimeError as error:
            raise _make_error(str(error), source) from None


@contextmanager
def _borrow_machine(binding: Binding, cpu: HostCpu) -> Generator[TargetMachine]:
    idle = _idle_machines[cpu]
    try:
        machine = idle.pop()  # popping and appending are atomic
    except IndexError:
        machine = _make_machine(binding, cpu)
    try:
        yield machine
    finally:
        idle.append(machine)


def _make_machine(binding: Binding, cpu: HostCpu) -> TargetMachine:
    return binding.Target.from_triple(cpu.triple).create_target_machine(
        cpu=cpu.name,
        features=cpu.features,
        opt=_OPT_LEVEL,
        reloc=_RELOCATION,
        codemodel=_CODE_MODEL,
        jit=True,
    )


def _run_passes(binding: Binding, machine: TargetMachine, module: Module) -> None:
    with (
        closing(binding.create_pipeline_tuning_options(speed_level=_OPT_LEVEL)) as options,
        closing(binding.create_pass_builder(machine, options)) as builder,
        closing(binding.create_new_module_pass_manager()) as passes,
    ):
        passes.add_sroa_pass()
        passes.run(module, builder)


_MESSAGE: Final = re.compile(r"(?:<string>:(?P<line>\d+):\d+: )?error: (?P<text>.*)")


def _make_error(message: str, source: str) -> CompileError:
    """Extract the line number and the message from LLVM's output."""
    match = _MESSAGE.search(message)
    if match is None:
        return CompileError(
            compiler="LLVM", message=message.strip().replace("\n", "; "), source=source
        )
    line = match["line"]
    return CompileError(
        compiler="LLVM", message=match["text"], source=source, line=int(line) if line else None
    )
