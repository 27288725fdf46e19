"""Linking objects: both linkers, missing functions, the half-precision helpers, and memory."""

from __future__ import annotations

import ctypes
import gc
import math
import struct
import sys
from pathlib import Path

import numpy as np
import pytest

from svod_codegen import _loader as loader
from svod_codegen._elf import UnsupportedObject, can_link_elf, find_process_symbol, link_elf
from svod_codegen._loader import LoadedCode, load_object, load_support
from svod_codegen.errors import LoadError, MissingSymbolError
from svod_codegen.llvm.compiler import compile_ir
from svod_codegen.llvm.lljit import link_with_lljit

REMAINDER = """\
declare float @fmodf(float, float)
define float @remainder(float %x, float %y) nounwind {
  %r = call float @fmodf(float %x, float %y)
  %s = fadd float %r, 0.5
  ret float %s
}
define ptr @address_of_fmodf() nounwind {
  ret ptr @fmodf
}
"""
POLYNOMIAL = """\
define void @f(ptr %at) nounwind {
  %x = load <4 x float>, ptr %at, align 4
  %y = fmul <4 x float> %x, <float 1.0, float 2.0, float 3.0, float 4.0>
  %z = fadd <4 x float> %y, <float 0.5, float 0.25, float 0.125, float 0.0625>
  store <4 x float> %z, ptr %at, align 4
  ret void
}
"""
COUNTER = """\
@count = global i64 41
define i64 @f() nounwind {
  %old = load i64, ptr @count
  %new = add i64 %old, 1
  store i64 %new, ptr @count
  ret i64 %new
}
"""
FLOAT2 = (ctypes.c_float, ctypes.c_float, ctypes.c_float)

needs_elf = pytest.mark.skipif(not can_link_elf(), reason="the Python linker takes x86-64 ELF")


def function(code: LoadedCode, name: str, *types):
    """The function as a callable that keeps its code."""
    call = ctypes.CFUNCTYPE(*types)(code.addresses[name])
    return lambda *arguments, _code=code: call(*arguments)


@pytest.fixture(params=["python", "llvm"])
def linker(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "llvm":
        monkeypatch.setattr(loader, "can_link_elf", lambda: False)
    elif not can_link_elf():
        pytest.skip("the Python linker takes x86-64 ELF")
    return request.param


def test_code_calls_the_c_library(linker: str):
    code = load_object(compile_ir(REMAINDER), ["remainder"])
    assert function(code, "remainder", *FLOAT2)(7.5, 2.0) == 2.0


def test_code_takes_the_address_of_a_function_of_the_c_library(linker: str):
    code = load_object(compile_ir(REMAINDER), ["address_of_fmodf"])
    pointer = function(code, "address_of_fmodf", ctypes.c_void_p)()
    assert ctypes.CFUNCTYPE(*FLOAT2)(pointer)(7.5, 2.0) == 1.5


def test_code_reads_its_constants(linker: str):
    code = load_object(compile_ir(POLYNOMIAL), ["f"])
    data = np.arange(4, dtype=np.float32)
    function(code, "f", None, ctypes.c_void_p)(data.ctypes.data)
    assert data.tolist() == [0.5, 2.25, 6.125, 12.0625]


def test_a_missing_function_is_an_error_that_names_it_and_prints_nothing(
    linker: str, capfd: pytest.CaptureFixture[str]
):
    code = compile_ir(
        "declare void @svod_no_such()\ndefine void @f() {\n  call void @svod_no_such()\n  ret"
        " void\n}"
    )
    with pytest.raises(MissingSymbolError, match="svod_no_such") as caught:
        load_object(code, ["f"])
    assert caught.value.missing == ("svod_no_such",)
    assert capfd.readouterr().err == ""


def test_the_same_object_loads_twice(linker: str):
    code = compile_ir(POLYNOMIAL)
    first, second = load_object(code, ["f"]), load_object(code, ["f"])
    assert first.addresses["f"] != second.addresses["f"]


@pytest.mark.parametrize("damage", ["empty", "text", "truncated"])
def test_damaged_code_is_an_error(linker: str, damage: str):
    whole = compile_ir(POLYNOMIAL)
    code = {"empty": b"", "text": b"not an object" * 9, "truncated": whole[: len(whole) // 2]}[
        damage
    ]
    with pytest.raises(LoadError):
        load_object(code, ["f"])


def test_an_unknown_symbol_is_an_error(linker: str):
    with pytest.raises(LoadError):
        load_object(compile_ir(POLYNOMIAL), ["g"])


def test_writable_data_goes_to_llvms_linker():
    code = compile_ir(COUNTER)
    if can_link_elf():
        with pytest.raises(UnsupportedObject, match="writable"):
            link_elf(code, ["f"], find_process_symbol)
    count = function(load_object(code, ["f"]), "f", ctypes.c_int64)
    assert [count(), count()] == [42, 43]


@needs_elf
def test_code_pages_are_never_writable_and_executable():
    code = load_object(compile_ir(POLYNOMIAL), ["f"])
    address = code.addresses["f"]
    for line in Path("/proc/self/maps").read_text().splitlines():
        bounds, permissions = line.split()[:2]
        low, high = (int(bound, 16) for bound in bounds.split("-"))
        if low <= address < high:
            assert permissions == "r-xp"
            return
    pytest.fail("the code is not mapped")


@needs_elf
def test_code_is_unmapped_with_its_last_reference():
    code = load_object(compile_ir(POLYNOMIAL), ["f"])
    address = code.addresses["f"]
    del code
    gc.collect()
    spans = [line.split()[:2] for line in Path("/proc/self/maps").read_text().splitlines()]
    mapped = [p for b, p in spans if int(b.split("-")[0], 16) <= address < int(b.split("-")[1], 16)]
    assert "r-xp" not in mapped


@needs_elf
def test_both_linkers_agree():
    code = compile_ir(REMAINDER)
    results = []
    for link in (
        lambda: link_elf(code, ["remainder"], find_process_symbol),
        lambda: link_with_lljit(code, ["remainder"], {}),
    ):
        loaded = LoadedCode(*link())
        results.append(
            [function(loaded, "remainder", *FLOAT2)(x, 3.0) for x in (0.0, 10.0, -4.5, math.inf)]
        )
    assert repr(results[0]) == repr(results[1])


def narrow(name: str, wide: str, narrow_type: str) -> str:
    """A function from the bits of a float to the bits of a narrow one, that calls a helper
    by name.
    """
    return f"""\
declare {narrow_type} @{name}({wide})
define i16 @f({wide} %x) nounwind {{
  %y = call {narrow_type} @{name}({wide} %x)
  %bits = bitcast {narrow_type} %y to i16
  ret i16 %bits
}}
"""


SPECIAL = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    65504.0,
    65519.99,
    65520.0,
    65536.0,
    1e30,
    -1e30,
    math.inf,
    -math.inf,
    2.0**-14,
    2.0**-15,
    2.0**-24,
    2.0**-25,
    1.5 * 2.0**-25,
    2.0**-26,
    1e-40,
    2.0**-126,
    2.0**-133,
    2.0**-134,
    1.5 * 2.0**-134,
    5e-324,
    1e308,
    1 + 2.0**-8,
    1 + 3 * 2.0**-8,
    1 + 2.0**-11,
    1 + 3 * 2.0**-11,
    1 + 2.0**-11 + 2.0**-30,
    3.3895e38,
    3.4028235e38,
]


def samples(dtype: type[np.floating]) -> np.ndarray:
    generator = np.random.default_rng(7)
    scales = 2.0 ** generator.integers(-150, 140, 4000)
    with np.errstate(over="ignore", under="ignore"):
        return np.concatenate([SPECIAL, generator.standard_normal(4000) * scales]).astype(dtype)


def supported(name: str, wide: str, narrow_type: str):
    # By address: the process may have helpers of its own, which are not the ones under test.
    pointer = load_support().addresses[name]
    text = narrow(name, wide, narrow_type).replace(
        f"call {narrow_type} @{name}(", f"call {narrow_type} inttoptr (i64 {pointer} to ptr)("
    )
    argument = ctypes.c_float if wide == "float" else ctypes.c_double
    return function(load_object(compile_ir(text), ["f"]), "f", ctypes.c_uint16, argument)


@pytest.mark.parametrize(
    ("name", "wide", "dtype"),
    [("__truncsfhf2", "float", np.float32), ("__truncdfhf2", "double", np.float64)],
)
def test_the_half_helpers_round_as_numpy_does(name: str, wide: str, dtype: type[np.floating]):
    convert = supported(name, wide, "half")
    values = samples(dtype)
    with np.errstate(over="ignore"):
        expected = values.astype(np.float16).view(np.uint16).tolist()
    assert [convert(value) for value in values.tolist()] == expected


@pytest.mark.parametrize(
    ("name", "wide", "dtype"),
    [("__truncsfbf2", "float", np.float32), ("__truncdfbf2", "double", np.float64)],
)
def test_the_bfloat_helpers_round_to_the_nearest_and_ties_to_even(
    name: str, wide: str, dtype: type[np.floating]
):
    convert = supported(name, wide, "bfloat")
    for value in samples(dtype).tolist():
        assert convert(value) == nearest_bfloat(value), value


def nearest_bfloat(value: float) -> int:
    """By exhaustive comparison of the two neighbours in double precision."""
    sign = 0x8000 if math.copysign(1.0, value) < 0 else 0
    size = abs(value)
    low, high = 0, 0x7F80
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if bfloat_value(middle) <= size else (low, middle)
    if math.isinf(size):
        return sign | 0x7F80
    above = bfloat_value(high) if high < 0x7F80 else 2.0**128
    below_distance, above_distance = size - bfloat_value(low), above - size
    if below_distance == above_distance:
        return sign | (low if low % 2 == 0 else high)
    return sign | (low if below_distance < above_distance else high)


def bfloat_value(bits: int) -> float:
    return struct.unpack("<f", struct.pack("<I", bits << 16))[0]


@pytest.mark.parametrize("name", ["__truncsfhf2", "__truncdfhf2", "__truncsfbf2", "__truncdfbf2"])
def test_the_helpers_keep_nan(name: str):
    wide, narrow_type = (
        ("float" if "sf" in name else "double"),
        ("half" if "hf" in name else "bfloat"),
    )
    convert = supported(name, wide, narrow_type)
    infinity = 0x7C00 if narrow_type == "half" else 0x7F80
    assert convert(math.nan) & 0x7FFF > infinity


def test_every_half_extends_to_its_value():
    pointer = load_support().addresses["__extendhfsf2"]
    source = f"""\
define i32 @f(i16 %bits) nounwind {{
  %x = bitcast i16 %bits to half
  %y = call float inttoptr (i64 {pointer} to ptr)(half %x)
  %out = bitcast float %y to i32
  ret i32 %out
}}
"""
    extend = function(load_object(compile_ir(source), ["f"]), "f", ctypes.c_uint32, ctypes.c_uint16)
    halves = np.arange(1 << 16, dtype=np.uint32).astype(np.uint16)
    found = np.array([extend(bits) for bits in halves.tolist()], dtype=np.uint32).view(np.float32)
    np.testing.assert_array_equal(found, halves.view(np.float16).astype(np.float32))


@pytest.mark.skipif(sys.platform != "linux", reason="the helper's name is looked up with dlsym")
def test_a_process_without_the_bfloat_helper_gets_svods(linker: str):
    if find_process_symbol("__truncsfbf2") is not None:
        pytest.skip("this process has the helper")
    code = load_object(compile_ir(narrow("__truncsfbf2", "float", "bfloat")), ["f"])
    assert function(code, "f", ctypes.c_uint16, ctypes.c_float)(1.0) == 0x3F80
