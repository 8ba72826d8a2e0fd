"""Gives a program what its surroundings provide: files, as a tar archive in its memory, and arguments of ``main``.

Variables of the C library and of the start-up code have the addresses."""

import tarfile
from collections.abc import Sequence
from dataclasses import replace
from io import BytesIO
from itertools import accumulate
from pathlib import Path
from struct import pack

from xpulpnn.errors import InputError, require
from xpulpnn.isa.machine import WORD_BYTES
from xpulpnn_sim.reference.programs.elf import Executable, Segment, Window, content_of, windows

FILES_BASE, MAX_FILES = 0x4000_0000, 256 << 20
_ARGUMENTS_BASE, _MAX_ARGUMENTS = 0x3FF0_0000, 1 << 20
_NAME_BYTES = 100  # of a header; names end with a zero


def with_files(executable: Executable, folder: Path, ram: tuple[Window, ...]) -> Executable:
    """Return the program with the files of ``folder`` in its memory; unchanged if it opens none."""
    require(folder.is_dir(), f"--files must be an existing folder, not {folder}")
    if "xp_files" not in executable.symbols:
        return executable
    return _with_segment(executable, FILES_BASE, _archive(folder), "xp_files", [FILES_BASE], ram)


def with_arguments(executable: Executable, words: Sequence[str], ram: tuple[Window, ...]) -> Executable:
    """Return the program with its own path and ``words`` as the arguments of ``main``."""
    if "xp_arguments" not in executable.symbols:
        raise InputError(f"{executable.path} must be built by xpulpnn cc to take arguments such as {words[0]}")
    strings = [f"{word}\0".encode(errors="surrogateescape") for word in (str(executable.path), *words)]
    first = _ARGUMENTS_BASE + WORD_BYTES * (len(strings) + 1)
    places = list(accumulate(map(len, strings), initial=first))
    data = pack(f"<{len(places)}I", *places[:-1], 0) + b"".join(strings)
    if len(data) > _MAX_ARGUMENTS:
        raise InputError(f"arguments must have at most {_MAX_ARGUMENTS} bytes together, not {len(data)}")
    values = [len(strings), _ARGUMENTS_BASE]
    return _with_segment(executable, _ARGUMENTS_BASE, data, "xp_arguments", values, ram)


def _with_segment(
    executable: Executable, address: int, data: bytes, variable: str, values: Sequence[int], ram: tuple[Window, ...]
) -> Executable:
    for base, size in windows(executable, ram):
        if base < address + len(data) and address < base + size:
            raise InputError(f"memory must be free at 0x{address:08x}, not have a piece at 0x{base:08x}")
    added = Segment(address, data, len(data))
    words, place = pack(f"<{len(values)}I", *values), executable.symbols[variable]
    patched = [segment.patched(place, words) for segment in executable.segments]
    return replace(executable, segments=tuple(sorted((*patched, added), key=lambda segment: segment.address)))


def _archive(folder: Path) -> bytes:
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    total = sum(path.stat().st_size for path in paths)
    require(total <= MAX_FILES, f"files in {folder} must have at most {MAX_FILES} bytes together, not {total}")
    written = BytesIO()
    with tarfile.open(fileobj=written, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for path in paths:
            entry, content = tarfile.TarInfo(path.relative_to(folder).as_posix()), content_of(path)
            if len(entry.name.encode()) >= _NAME_BYTES:
                raise InputError(f"paths in {folder} must have less than {_NAME_BYTES} bytes, not {entry.name}")
            entry.size = len(content)
            archive.addfile(entry, BytesIO(content))
    return written.getvalue()
