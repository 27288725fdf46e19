"""Golden text of kernels for a fixed target, independent of the installed driver.

`pytest --bless` rewrites it.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from svod_dtype import DType, bool_, float16, float32, float64, int32, int64, uint8
from svod_ir import (
    Op,
    Opt,
    OptionError,
    OptOp,
    Target,
    UOp,
    make_alu,
    make_cast,
    make_flip,
    make_reduce_axis,
    make_reshape,
)
from svod_ir.target import COMMON_DTYPES, COMMON_OPS
from svod_ir.testing.nodes import buffer
from svod_ir.testing.programs import matmul
from svod_opencl import OpenCLOptions, OpenCLRenderer
from svod_opencl.errors import NoDeviceError, NoPlatformError, UnknownAddressError
from svod_opencl.types import constant, split_lanes
from svod_schedule.errors import UnsupportedDtypeError
from svod_schedule.pipeline import Context, compile_kernel, run_pipeline

TARGET = replace(
    Target.generic(),
    name="tiny",
    has_local=True,
    has_shared=True,
    shared_bytes=1 << 15,
    max_local=256,
    native_ops=COMMON_OPS | {Op.MULACC},
    native_dtypes=COMMON_DTYPES | {float16},
)


def tensor(number: int, dtype: DType, *shape: int) -> UOp:
    size = 1
    for n in shape:
        size *= n
    return make_reshape(buffer(number, size, dtype, "OPENCL"), shape)


GPU = replace(
    TARGET,
    name="gpu",
    vector_bits=128,
    vector_registers=64,
    cores=60,
    shared_bytes=48 << 10,
    max_local=1024,
    max_global=(2**31 - 1, 65535, 65535),
    max_local_dims=(1024, 1024, 64),
    lockstep=32,
)


def render(node: UOp, *opts: Opt, target: Target = TARGET) -> str:
    return render_with(node, opts, target)


def render_for_gpu(node: UOp) -> str:
    """Render the kernel that the heuristics choose for work-items in lockstep."""
    return render_with(node, None, GPU)


def render_with(node: UOp, opts: tuple[Opt, ...] | None, target: Target) -> str:
    context = Context(target=target, device="OPENCL", opts=opts)
    ranged = run_pipeline("rangeify", UOp.sink(node), context)
    body = next(run_pipeline("kernelize", ranged, context).iter_ops(Op.CALL)).body
    return OpenCLRenderer(target, vector_bytes=32).render(
        compile_kernel(body, context)[1], "kernel_name"
    )


X, Y = tensor(1, float32, 8, 32), tensor(2, float32, 8, 32)
CASES = {
    "grid": lambda: render(X * Y + X),
    "workgroup": lambda: render(
        make_reduce_axis(X, Op.ADD, (1,)), Opt(OptOp.LOCAL, 0, 4), Opt(OptOp.GROUP, 0, 8)
    ),
    "vectors_of_structs": lambda: render(make_alu(Op.MAX, X, Y), Opt(OptOp.UPCAST, 0, 16)),
    "masks": lambda: render(
        make_alu(Op.WHERE, make_alu(Op.LT, X, Y), X, Y), Opt(OptOp.UPCAST, 0, 4)
    ),
    "padded": lambda: render(
        tensor(1, float32, 13) * 2.0, Opt(OptOp.PADTO, 0, 4), Opt(OptOp.LOCAL, 0, 4)
    ),
    "saturating_cast": lambda: render(make_cast(X, uint8), Opt(OptOp.UPCAST, 0, 8)),
    "gpu_product": lambda: render_for_gpu(
        matmul(tensor(1, float32, 64, 32), tensor(2, float32, 32, 64))
    ),
    "gpu_row_sums": lambda: render_for_gpu(
        make_reduce_axis(tensor(1, float32, 512, 256), Op.ADD, (1,))
    ),
    "gpu_column_sums": lambda: render_for_gpu(
        make_reduce_axis(tensor(1, float32, 256, 512), Op.ADD, (0,))
    ),
    "gpu_elements": lambda: render_for_gpu(tensor(1, float32, 1021) * 2.0),
    "half": lambda: render(
        tensor(1, float16, 32) * tensor(2, float16, 32), Opt(OptOp.UPCAST, 0, 8)
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_text_of_a_kernel(name: str, request: pytest.FixtureRequest) -> None:
    path = Path(__file__).parent / "golden" / f"{name}.cl"
    found = CASES[name]()
    if request.config.getoption("--bless", default=False):
        path.write_text(found)
    assert found == path.read_text()


def test_arithmetic_on_a_dtype_that_the_device_lacks_is_a_user_error() -> None:
    target = replace(TARGET, native_dtypes=TARGET.native_dtypes - {float64})
    with pytest.raises(
        UnsupportedDtypeError, match="tiny has no arithmetic on float64, and MUL needs it"
    ):
        render(tensor(1, float64, 4) * tensor(2, float64, 4), target=target)


def test_a_dtype_without_arithmetic_on_the_device_can_be_copied() -> None:
    target = replace(TARGET, native_dtypes=TARGET.native_dtypes - {float64})
    text = render(make_flip(tensor(1, float64, 4), (True,)), target=target)
    assert "__global ulong *restrict" in text
    assert "double" not in text
    assert (
        OpenCLRenderer(target, has_exact_division=True, vector_bytes=16).constant(float64, -1.0)
        == "13830554455654793216uL"
    )


@pytest.mark.parametrize(
    ("lanes", "most", "expected"),
    [
        (2, 16, [2]),
        (3, 16, [3]),
        (7, 16, [4, 3]),
        (40, 16, [16, 16, 8]),
        (16, 4, [4] * 4),
        (5, 16, [4, 1]),
    ],
)
def test_lanes_are_split_into_built_in_vectors(lanes: int, most: int, expected: list[int]) -> None:
    assert split_lanes(lanes, most) == expected


@pytest.mark.parametrize(
    ("dtype", "value", "expected"),
    [
        (bool_, True, "true"),
        (int32, -(2**31), "(-2147483647 - 1)"),
        (int64, -5, "(-5L)"),
        (float32, 1.0, "0x1.0000000000000p+0f"),
        (float64, float("-inf"), "((double)-INFINITY)"),
        (float32, float("nan"), "NAN"),
        (float16, 0.5, "((half)0x1.0000000000000p-1f)"),
    ],
)
def test_constants_are_exact(dtype: DType, value: float, expected: str) -> None:
    assert constant(dtype, value) == expected


def test_the_environment_chooses_a_platform() -> None:
    assert OpenCLOptions.from_env({"SVOD_OPENCL_PLATFORM": " Portable "}).platform == "Portable"
    assert OpenCLOptions.from_env({}) == OpenCLOptions()
    assert OpenCLOptions.from_env({"SVOD_OPENCL_BINARIES": "0"}).use_binaries is False
    given = {"SVOD_OPENCL_BUILD_OPTIONS": "-cl-opt-disable -D 'NAME=a b'"}
    assert OpenCLOptions.from_env(given).build_options == ("-cl-opt-disable", "-D", "NAME=a b")
    with pytest.raises(OptionError, match="SVOD_OPENCL_BUILD_OPTIONS"):
        OpenCLOptions.from_env({"SVOD_OPENCL_BUILD_OPTIONS": "'open"})


def test_errors_list_the_platforms_and_devices_and_a_remedy() -> None:
    assert (
        str(NoPlatformError(wanted="", platforms=()))
        == "no OpenCL platform is installed\n  hint: install your device's driver, or `pip install"
        " svod-opencl[cpu]` for one that runs on the CPU"
    )
    assert (
        str(NoPlatformError(wanted="acme", platforms=["PoCL"]))
        == "no OpenCL platform matches 'acme'\n"
        "  note: installed platforms: PoCL\n"
        "  hint: set SVOD_OPENCL_PLATFORM to a substring of one of these names, or unset it"
    )
    assert (
        str(NoDeviceError(device="OPENCL:3", working=["cpu"]))
        == "no device 'OPENCL:3': 1 OpenCL devices work\n  note: OPENCL:0 is cpu"
    )
    assert (
        str(UnknownAddressError(device="OPENCL", address=255)) == "0xff is not an address of OPENCL"
    )
