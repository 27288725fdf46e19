"""Page that follows one program through the fourteen steps, with the artifact of each step."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence

__all__ = ["journey_page"]

PROGRAM = """\
x = Tensor(np.arange(12, dtype=np.float32).reshape(3, 4))
y = (x.transpose() + 1).sum(1)
y.numpy()"""

DESCRIPTIONS = {
    "build": "Each call adds nodes to a graph; nothing is computed.",
    "rangeify": (
        "The transpose is now index arithmetic. A value that must be stored is a BUFFERIZE."
    ),
    "kernelize": "Each stored value has a buffer, and a CALL of the kernel that fills it.",
    "preschedule": (
        "Kernels in order, without buffers yet: equal programs share this through the schedule"
        " cache."
    ),
    "instantiate": "The buffers and variables of this run; a kernel writes its first buffer.",
    "optimize": "The opts that the heuristics chose are applied, and recorded in the SINK.",
    "lower": "Vectors, accumulators in registers, explicit loads, and indices of 32 bits.",
    "linearize": "Nodes in execution order; RANGE and END nest.",
    "render": "LLVM assembly.",
    "compile": "In the process, or from the cache on disk.",
    "load": "Linked into the process; now it can be called.",
    "prepare": "Steps 6 to 11 behind one cache: kernels with the indices of their buffers.",
    "plan": "Addresses are computed once, and consecutive kernels become single calls.",
    "execute": "One foreign call, and the contents of the result's buffer.",
}


def journey_page() -> str:
    """Write the page: a description and the artifact of each step."""
    lines = [
        "# The journey of a program",
        "",
        "![The fourteen steps from a call on a tensor to filled buffers](pictures/journey.svg)",
        "",
        "Three lines of Python, and the artifact of each of the fourteen steps:",
        "",
        *_block(PROGRAM, "python"),
        "",
        (
            "The graphs are in text form: `svod_ir.parse_graph` reads them back. The target is"
            " `Target.generic(cores=2)`, so"
        ),
        "that this page does not depend on the machine; yours may use wider vectors.",
    ]
    for index, (word, description, artifact, language) in enumerate(_iter_steps(), 1):
        lines += ["", f"## {index}. {word}", "", description, "", *_block(artifact, language)]
    return "\n".join(lines)


def _iter_steps() -> Iterator[tuple[str, str, str, str]]:
    """Yield (word, description, artifact, language of the artifact) for each step."""
    _use_generic_target()
    import numpy as np

    from svod_tensor import PrepareConfig, Tensor
    from svod_tensor.explain import explain

    x = Tensor(np.arange(12, dtype=np.float32).reshape(3, 4))
    y = (x.transpose() + 1).sum(1)
    # Dict, since a program with several kernels has several artifacts of some words.
    artifacts = {artifact.word: artifact.text for artifact in explain([y], PrepareConfig())}
    artifacts["compile"] = re.sub(r"^\d+ bytes of ", "", artifacts["compile"])
    artifacts["execute"] += f"\n{y.numpy()}"
    for word, description in DESCRIPTIONS.items():
        yield word, description, artifacts[word], "llvm" if word == "render" else ""


def _use_generic_target() -> None:
    """Make a backend for the generic target the default of the CPU, on any machine."""
    from dataclasses import replace

    from svod_codegen.backend import make_llvm_backend
    from svod_codegen.llvm.renderer import render
    from svod_device import Backend, register_backend
    from svod_ir import Target, UOp

    class Renderer:
        def render(self, linear: Sequence[UOp], name: str) -> str:
            return render(tuple(linear), name, target)

    target = Target.generic(cores=2)

    def make_backend(device: str) -> Backend:
        return replace(make_llvm_backend(device), renderer=Renderer(), target=target)

    os.environ["SVOD_CPU_BACKEND"] = "generic"
    register_backend("CPU.generic", make_backend)


def _block(text: str, language: str) -> list[str]:
    return [f"```{language}", *text.rstrip().splitlines(), "```"]
