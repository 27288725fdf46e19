r"""Emulation of AMX: kernels with tile instructions are rewritten to call functions on a tile file in
memory.

    call void @llvm.x86.tdpbf16ps(i8 0, i8 2, i8 3)  ->  call void @amx.tdpbf16ps(ptr %tile_file, i8 0, i8 2, i8 3)

The functions follow the manual, for tiles of 16 rows of 64 bytes:

- `tdpbf16ps c, a, b`: for each element of c two sums start at zero, over the products of the even
  and of the odd elements. Each product is added with a fused multiply-add. Then the even sum and the
  odd sum are added, and the result is added to the element of c. Every step rounds to nearest even,
  and flushes denormal operands and results to zero.
- `tdpfp16ps` is the same, except that denormal elements of a and b are not flushed.
- `tdpb{s,u}{s,u}d` adds four products of signed or unsigned bytes to each element of c, modulo
  2**32.

Each kernel call has its own tile file, so kernels may run in several threads. Tiles contain garbage
until they are configured and after they are released.

Source: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2, instructions
LDTILECFG, TDPBF16PS, TDPFP16PS, TDPBSSD/TDPBSUD/TDPBUSD/TDPBUUD, TILELOADD, TILERELEASE,
TILESTORED, TILEZERO ("Operation").

Example:
    >>> from svod_codegen.testing import emulate_tiles
    >>> text = emulate_tiles("define void @k() {\nentry:\n  call void @llvm.x86.tilezero(i8 0)\n  ret void\n}")
    >>> print(text[: text.index("}")].rstrip())
    define void @k() {
    entry:
      %tile_file = alloca [8 x [1024 x i8]], align 64
      call void @amx.tilezero(ptr %tile_file, i8 0)
      ret void
"""

from __future__ import annotations

import re
from typing import Final

__all__ = ["emulate_tiles"]

_INTRINSIC: Final = re.compile(
    r"@llvm\.x86\.(ldtilecfg|tilerelease|tilezero|tileloadd64|tilestored64|tdp\w+)\("
)


def emulate_tiles(source: str) -> str:
    """Rewrite a kernel for processors without AMX; a kernel without tiles is returned unchanged."""
    used = sorted(set(_INTRINSIC.findall(source)))
    if not used:
        return source
    # Declarations of the intrinsics would stay undefined on a processor without AMX.
    lines = [
        line
        for line in source.splitlines()
        if not (line.startswith("declare") and _INTRINSIC.search(line))
    ]
    text = "\n".join(lines).replace(
        "\nentry:\n", "\nentry:\n  %tile_file = alloca [8 x [1024 x i8]], align 64\n", 1
    )
    text = _INTRINSIC.sub(r"@amx.\1(ptr %tile_file, ", text).replace(
        "(ptr %tile_file, )", "(ptr %tile_file)"
    )
    return "\n".join([text, _COMMON, *(_FUNCTIONS[name] for name in used), ""])


# Vectors of 16 words, one per column: a row of a tile is one register of AVX-512.
_COMMON: Final = """\
define internal ptr @amx.tile(ptr %file, i8 %number) nounwind {
  %n = zext i8 %number to i64
  %tile = getelementptr [1024 x i8], ptr %file, i64 %n
  ret ptr %tile
}
define internal <16 x float> @amx.flush(<16 x float> %x) nounwind {
  %bits = bitcast <16 x float> %x to <16 x i32>
  %exponent = and <16 x i32> %bits, splat (i32 2139095040)
  %small = icmp eq <16 x i32> %exponent, zeroinitializer
  %sign = and <16 x i32> %bits, splat (i32 -2147483648)
  %kept = select <16 x i1> %small, <16 x i32> %sign, <16 x i32> %bits
  %result = bitcast <16 x i32> %kept to <16 x float>
  ret <16 x float> %result
}
define internal <16 x float> @amx.bf16(<16 x i32> %word, i32 %shift) nounwind {
  %amount = insertelement <16 x i32> poison, i32 %shift, i64 0
  %amounts = shufflevector <16 x i32> %amount, <16 x i32> poison, <16 x i32> zeroinitializer
  %high = shl <16 x i32> %word, %amounts
  %bits = and <16 x i32> %high, splat (i32 -65536)
  %x = bitcast <16 x i32> %bits to <16 x float>
  %result = call <16 x float> @amx.flush(<16 x float> %x)
  ret <16 x float> %result
}
define internal <16 x float> @amx.fp16(<16 x i32> %word, i32 %shift) nounwind {
  %amount = insertelement <16 x i32> poison, i32 %shift, i64 0
  %amounts = shufflevector <16 x i32> %amount, <16 x i32> poison, <16 x i32> zeroinitializer
  %high = shl <16 x i32> %word, %amounts
  %low = lshr <16 x i32> %high, splat (i32 16)
  %bits = trunc <16 x i32> %low to <16 x i16>
  %half = bitcast <16 x i16> %bits to <16 x half>
  %result = fpext <16 x half> %half to <16 x float>
  ret <16 x float> %result
}
define internal <16 x float> @amx.add_product(<16 x float> %sum, <16 x float> %x, <16 x float> %y) nounwind {
  %exact = call <16 x float> @llvm.fma.v16f32(<16 x float> %x, <16 x float> %y, <16 x float> %sum)
  %result = call <16 x float> @amx.flush(<16 x float> %exact)
  ret <16 x float> %result
}
declare <16 x float> @llvm.fma.v16f32(<16 x float>, <16 x float>, <16 x float>)
"""

# Configuration sets all tiles to 0, as the processor does; release writes NaNs, so that a kernel
# that reads a tile after it fails.
_FILL: Final = """\
define internal void @amx.{name}(ptr %file{parameters}) nounwind noinline {{
entry:
  br label %loop
loop:
  %n = phi i64 [ 0, %entry ], [ %next, %loop ]
  %at = getelementptr i64, ptr %file, i64 %n
  store i64 {value}, ptr %at
  %next = add i64 %n, 1
  %again = icmp ult i64 %next, 1024
  br i1 %again, label %loop, label %done
done:
  ret void
}}
"""

_ZERO: Final = """\
define internal void @amx.tilezero(ptr %file, i8 %number) nounwind noinline {
entry:
  %tile = call ptr @amx.tile(ptr %file, i8 %number)
  br label %loop
loop:
  %n = phi i64 [ 0, %entry ], [ %next, %loop ]
  %row = getelementptr [64 x i8], ptr %tile, i64 %n
  store <64 x i8> zeroinitializer, ptr %row
  %next = add i64 %n, 1
  %again = icmp ult i64 %next, 16
  br i1 %again, label %loop, label %done
done:
  ret void
}
"""

_MOVE: Final = """\
define internal void @amx.{name}(ptr %file, i8 %number, ptr %memory, i64 %stride) nounwind noinline {{
entry:
  %tile = call ptr @amx.tile(ptr %file, i8 %number)
  br label %loop
loop:
  %n = phi i64 [ 0, %entry ], [ %next, %loop ]
  %row = getelementptr [64 x i8], ptr %tile, i64 %n
  %offset = mul i64 %n, %stride
  %there = getelementptr i8, ptr %memory, i64 %offset
  %bytes = load <64 x i8>, ptr {source}, align 1
  store <64 x i8> %bytes, ptr {target}, align 1
  %next = add i64 %n, 1
  %again = icmp ult i64 %next, 16
  br i1 %again, label %loop, label %done
done:
  ret void
}}
"""

# Loop nest of all products: over the rows of c, and over the words of a's row, each of which is
# multiplied with a row of b.
_PRODUCT: Final = """\
define internal void @amx.{name}(ptr %file, i8 %c, i8 %a, i8 %b) nounwind noinline {{
entry:
  %c_tile = call ptr @amx.tile(ptr %file, i8 %c)
  %a_tile = call ptr @amx.tile(ptr %file, i8 %a)
  %b_tile = call ptr @amx.tile(ptr %file, i8 %b)
  br label %rows
rows:
  %m = phi i64 [ 0, %entry ], [ %next_m, %row_done ]
  %c_row = getelementptr [64 x i8], ptr %c_tile, i64 %m
  %a_row = getelementptr [64 x i8], ptr %a_tile, i64 %m
  %old = load {vector}, ptr %c_row
  br label %words
words:
  %k = phi i64 [ 0, %rows ], [ %next_k, %words ]
{phis}
  %a_at = getelementptr i32, ptr %a_row, i64 %k
  %b_at = getelementptr [64 x i8], ptr %b_tile, i64 %k
  %a_word = load i32, ptr %a_at
  %a_first = insertelement <16 x i32> poison, i32 %a_word, i64 0
  %x = shufflevector <16 x i32> %a_first, <16 x i32> poison, <16 x i32> zeroinitializer
  %y = load <16 x i32>, ptr %b_at
{step}
  %next_k = add i64 %k, 1
  %more = icmp ult i64 %next_k, 16
  br i1 %more, label %words, label %row_done
row_done:
{end}
  store {vector} %new, ptr %c_row
  %next_m = add i64 %m, 1
  %again = icmp ult i64 %next_m, 16
  br i1 %again, label %rows, label %done
done:
  ret void
}}
"""


def _float_product(name: str, kind: str) -> str:
    phis = "".join(
        f"  %{side} = phi <16 x float> [ zeroinitializer, %rows ], [ %next_{side}, %words ]\n"
        for side in ("even", "odd")
    )
    step = "".join(
        f"  %{v}_{side} = call <16 x float> @amx.{kind}(<16 x i32> %{v}, i32 {shift})\n"
        for side, shift in (("even", 16), ("odd", 0))
        for v in "xy"
    ) + "".join(
        f"  %next_{s} = call <16 x float> @amx.add_product(<16 x float> %{s}, <16 x float> %x_{s},"
        f" <16 x float> %y_{s})\n"
        for s in ("even", "odd")
    )
    end = """\
  %pair = fadd <16 x float> %next_even, %next_odd
  %pair_flushed = call <16 x float> @amx.flush(<16 x float> %pair)
  %old_flushed = call <16 x float> @amx.flush(<16 x float> %old)
  %total = fadd <16 x float> %old_flushed, %pair_flushed
  %new = call <16 x float> @amx.flush(<16 x float> %total)"""
    return _PRODUCT.format(name=name, vector="<16 x float>", phis=phis, step=step, end=end)


def _byte_product(name: str) -> str:
    shifts = {"s": "ashr", "u": "lshr"}
    step, total = "", "%sum"
    for byte in range(4):
        for v, sign in zip("xy", name[4:6], strict=True):
            step += f"  %{v}_up{byte} = shl <16 x i32> %{v}, splat (i32 {24 - 8 * byte})\n"
            step += f"  %{v}{byte} = {shifts[sign]} <16 x i32> %{v}_up{byte}, splat (i32 24)\n"
        step += f"  %product{byte} = mul <16 x i32> %x{byte}, %y{byte}\n"
        step += f"  %sum{byte} = add <16 x i32> {total}, %product{byte}\n"
        total = f"%sum{byte}"
    phis = f"  %sum = phi <16 x i32> [ %old, %rows ], [ {total}, %words ]\n"
    return _PRODUCT.format(
        name=name,
        vector="<16 x i32>",
        phis=phis,
        step=step,
        end=f"  %new = add <16 x i32> {total}, zeroinitializer",
    )


_FUNCTIONS: Final = {
    "ldtilecfg": _FILL.format(name="ldtilecfg", parameters=", ptr %configuration", value=0),
    "tilerelease": _FILL.format(name="tilerelease", parameters="", value=0x7FA57FA57FA57FA5),
    "tilezero": _ZERO,
    "tileloadd64": _MOVE.format(name="tileloadd64", source="%there", target="%row"),
    "tilestored64": _MOVE.format(name="tilestored64", source="%row", target="%there"),
    "tdpbf16ps": _float_product("tdpbf16ps", "bf16"),
    "tdpfp16ps": _float_product("tdpfp16ps", "fp16"),
} | {name: _byte_product(name) for name in ("tdpbssd", "tdpbsud", "tdpbusd", "tdpbuud")}
