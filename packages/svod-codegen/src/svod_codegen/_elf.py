"""Linker for x86-64 ELF objects in Python, so that a process that finds all its kernels in the cache
never loads LLVM.

It supports the objects that LLVM emits for our modules: position-independent code, read-only
constants, and calls of C functions by name. The image of an object is its code and constants,
followed by a stub with an address slot for each external function. It has its own pages, which are
never writable and executable at once (W^X). Anything else in an object (writable data, thread-local
storage, constructors) raises `UnsupportedObject`, and the caller links it with LLVM instead.

Source: ELF-64 object file format, version 1.5; System V ABI, AMD64 supplement, sections 4.4 and
5.2."""

from __future__ import annotations

import ctypes
import mmap
import struct
import sys
from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple

from svod_codegen.errors import MissingSymbolError
from svod_codegen.llvm.target import get_machine

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = [
    "UnsupportedObject",
    "can_link_elf",
    "find_process_symbol",
    "is_foreign_object",
    "link_elf",
    "list_undefined_symbols",
]


class UnsupportedObject(Exception):
    """Signal to the loader that an object needs the full linker; users never see it."""


class _Section(NamedTuple):
    name: int
    kind: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    alignment: int
    entry_size: int


class _Symbol(NamedTuple):
    name: int
    info: int
    other: int
    section: int
    value: int
    size: int


_HEADER: Final = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION: Final = struct.Struct("<IIQQQQIIQQ")
_SYMBOL: Final = struct.Struct("<IBBHQQ")
_RELOCATION: Final = struct.Struct("<QQq")
_IDENT: Final = b"\x7fELF\x02\x01\x01"
_RELOCATABLE, _X86_64 = 1, 62
_MACHINES: Final = {"x86_64": _X86_64, "aarch64": 183}
_SYMTAB, _RELA, _NOBITS, _INIT_ARRAY = 2, 4, 8, 14
_WRITE, _ALLOC, _THREAD_LOCAL = 1, 2, 0x400
_TYPE_TLS, _TYPE_IFUNC = 6, 10
_FIRST_RESERVED_SECTION: Final = 0xFF00  # absolute and common symbols

_ABS64, _PC32, _PLT32, _GOTPCREL, _PC64, _GOTPCRELX, _REX_GOTPCRELX = 1, 2, 4, 9, 24, 41, 42
_VIA_SLOT: Final = frozenset({_GOTPCREL, _GOTPCRELX, _REX_GOTPCRELX})
_STUB: Final = (
    b"\xff\x25\x02\x00\x00\x00\xcc\xcc"  # jmp *2(%rip): the address follows in the next 8 bytes
)
_STUB_BYTES: Final = 16


def can_link_elf() -> bool:
    """Whether this process can run code that `link_elf` supports."""
    return sys.platform == "linux" and get_machine() == "x86_64"


def link_elf(
    code: bytes, symbols: Sequence[str], find_symbol: Callable[[str], int | None]
) -> tuple[dict[str, int], mmap.mmap]:
    """Link one object; return the addresses of `symbols`, and the pages, which must stay referenced
    as long as the code is used.

    Raises:
        UnsupportedObject: The object contains more than code, constants and calls, or the system
            forbids executable pages.
        MissingSymbolError: `find_symbol` does not know a function that the object calls.
    """
    try:
        image = _Image(code)
        # Stubs before relocation: calls need their offsets. They are in the image because a
        # relative call reaches 2 GiB, and the C library may be mapped further away.
        image.place_externals(symbols, find_symbol)
        pages = mmap.mmap(-1, max(1, len(image.data)), mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        base = ctypes.addressof(ctypes.c_char.from_buffer(pages))
        image.relocate(base)
        # Only now is the image complete, and the pages are still writable.
        pages[: len(image.data)] = bytes(image.data)
        _protect(base, len(pages))
        return {name: base + image.exports[name] for name in symbols}, pages
    # A damaged object: LLVM's linker reports what is wrong with it.
    except (struct.error, IndexError, KeyError, ValueError, OSError) as error:
        raise UnsupportedObject(str(error)) from error


def find_process_symbol(name: str) -> int | None:
    """Find the address of a function in the process or the C library."""
    for library in _libraries():
        try:
            return ctypes.cast(getattr(library, name), ctypes.c_void_p).value
        except AttributeError:
            continue
    return None


def list_undefined_symbols(code: bytes) -> list[str]:
    """List the functions that an object calls but does not define; empty if it is no ELF object."""
    try:
        return [
            name
            for symbol, name in _read_symbols(code, _read_sections(code))
            if symbol.section == 0 and name
        ]
    except (UnsupportedObject, struct.error, ValueError):
        return []


def is_foreign_object(code: bytes) -> bool:
    """Whether an object is certainly not for this machine; False on systems without ELF."""
    if sys.platform != "linux":
        return False
    if len(code) < _HEADER.size or not code.startswith(_IDENT[:4]):
        return True
    machine: int = _HEADER.unpack_from(code)[2]
    return machine != _MACHINES.get(get_machine(), machine)


class _Image:
    """Memory image of an object: its loaded sections, followed by stubs for external functions."""

    def __init__(self, code: bytes) -> None:
        self._code = code
        self.data = bytearray()
        if _HEADER.unpack_from(code)[2] != _X86_64:
            raise UnsupportedObject("code for another processor")
        self._sections = _read_sections(code)
        self._offsets = self._place_sections()
        self._symbols = _read_symbols(code, self._sections)
        self.exports = {
            name: self._offsets[symbol.section] + symbol.value
            for symbol, name in self._symbols
            if symbol.section in self._offsets and name
        }
        self._slots: dict[str, int] = {}

    def _place_sections(self) -> dict[int, int]:
        offsets: dict[int, int] = {}
        for index, section in enumerate(self._sections):
            if not section.flags & _ALLOC or self._is_unwinding(section) or section.size == 0:
                continue
            if section.flags & (_WRITE | _THREAD_LOCAL) or section.kind in (_NOBITS, _INIT_ARRAY):
                raise UnsupportedObject("writable data")
            self._pad(max(section.alignment, 1))
            offsets[index] = len(self.data)
            self.data += self._code[section.offset : section.offset + section.size]
        return offsets

    def _is_unwinding(self, section: _Section) -> bool:
        # Kernels neither throw nor are unwound, so .eh_frame is not needed.
        return self._section_name(section) == b".eh_frame"

    def _section_name(self, section: _Section) -> bytes:
        names_index: int = _HEADER.unpack_from(self._code)[13]
        return _string(self._code, self._sections[names_index].offset + section.name)

    def place_externals(
        self, symbols: Sequence[str], find_symbol: Callable[[str], int | None]
    ) -> None:
        """Append a stub with its address for each function that the object calls but does not
        define.
        """
        missing: list[str] = []
        # Objects also list symbols that no code refers to. Sorted, so that equal objects have equal
        # images.
        for index in sorted(self._referenced()):
            symbol, name = self._symbols[index]
            if symbol.section == 0:
                address = find_symbol(name)
                if address is None:
                    missing.append(name)
                    continue
                self._pad(_STUB_BYTES)
                self._slots[name] = len(self.data) + len(_STUB)
                self.data += _STUB + address.to_bytes(8, "little")
        if missing:
            raise MissingSymbolError(symbols=tuple(symbols), missing=tuple(missing))

    def _referenced(self) -> set[int]:
        return {info >> 32 for _, _, info, _ in self._iter_relocations()}

    def _iter_relocations(self) -> list[tuple[int, int, int, int]]:
        """List relocations: (offset of the section in the image, offset in the section, symbol and
        kind, addend).
        """
        relocations: list[tuple[int, int, int, int]] = []
        for table in self._sections:
            if table.kind == _RELA and table.info in self._offsets:
                start = self._offsets[table.info]
                raw = self._code[table.offset : table.offset + table.size]
                relocations += [(start, *fields) for fields in _RELOCATION.iter_unpack(raw)]
        return relocations

    def relocate(self, base: int) -> None:
        """Resolve all references, for an image that will be at address `base`."""
        for start, offset, info, addend in self._iter_relocations():
            self._relocate(start + offset, info >> 32, info & 0xFFFFFFFF, addend, base)

    def _relocate(self, offset: int, index: int, kind: int, addend: int, base: int) -> None:
        # All of these are relative to the code, except the last one: only it depends on where the
        # pages are.
        if kind in _VIA_SLOT:
            struct.pack_into("<i", self.data, offset, self._get_slot(index) + addend - offset)
        elif kind in (_PC32, _PLT32):
            struct.pack_into("<i", self.data, offset, self._get_target(index) + addend - offset)
        elif kind == _PC64:
            struct.pack_into("<q", self.data, offset, self._get_target(index) + addend - offset)
        elif kind == _ABS64:
            struct.pack_into("<Q", self.data, offset, base + self._get_target(index) + addend)
        else:
            raise UnsupportedObject(f"relocation {kind}")

    def _get_target(self, index: int) -> int:
        """Return a symbol's offset in the image: of its definition, or of the stub that jumps to it."""
        symbol, name = self._symbols[index]
        if symbol.section == 0:
            return self._slots[name] - len(_STUB)
        if symbol.section >= _FIRST_RESERVED_SECTION:
            raise UnsupportedObject("absolute or common symbol")
        return self._offsets[symbol.section] + symbol.value

    def _get_slot(self, index: int) -> int:
        """Return the offset of the word with an external symbol's address."""
        slot = self._slots.get(self._symbols[index][1])
        if slot is None:
            raise UnsupportedObject(
                "the global offset table refers to a symbol of the object itself"
            )
        return slot

    def _pad(self, alignment: int) -> None:
        self.data += bytes(-len(self.data) % alignment)


def _read_sections(code: bytes) -> list[_Section]:
    header = _HEADER.unpack_from(code)
    if not code.startswith(_IDENT) or header[1] != _RELOCATABLE:
        raise UnsupportedObject("not an ELF object")
    table, entry_size, count = header[6], header[11], header[12]
    return [_Section(*_SECTION.unpack_from(code, table + i * entry_size)) for i in range(count)]


def _read_symbols(code: bytes, sections: Sequence[_Section]) -> list[tuple[_Symbol, str]]:
    for table in sections:
        if table.kind == _SYMTAB:
            names = sections[table.link].offset
            symbols = [
                _Symbol(*f)
                for f in _SYMBOL.iter_unpack(code[table.offset : table.offset + table.size])
            ]
            if any(symbol.info & 15 in (_TYPE_TLS, _TYPE_IFUNC) for symbol in symbols):
                raise UnsupportedObject("thread-local or indirect symbols")
            return [(symbol, _string(code, names + symbol.name).decode()) for symbol in symbols]
    raise UnsupportedObject("no symbol table")


def _string(code: bytes, start: int) -> bytes:
    return code[start : code.index(b"\0", start)]


@cache
def _libraries() -> list[ctypes.CDLL]:
    """Load the process itself, and the parts of older C libraries that it may not have loaded."""
    # Windows has no handle for the whole process; its C library has all functions that we call.
    libraries = [ctypes.CDLL("ucrtbase" if sys.platform == "win32" else None)]
    for name in ("libm.so.6", "libpthread.so.0") if sys.platform == "linux" else ():
        try:
            libraries.append(ctypes.CDLL(name))
        except OSError:
            continue
    return libraries


def _protect(address: int, size: int) -> None:
    """Make whole pages readable and executable, and no longer writable."""
    c_library = _libraries()[0]
    c_library.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    # mprotect works on whole pages; the mapping has no other data on its last one.
    pages = -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
    if c_library.mprotect(address, pages, mmap.PROT_READ | mmap.PROT_EXEC) != 0:
        raise OSError("the system forbids executable pages")
