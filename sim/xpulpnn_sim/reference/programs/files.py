"""Files that a program may read: a tar archive in its memory, whose address is in a variable of the C library."""

import tarfile
from dataclasses import replace
from io import BytesIO
from pathlib import Path

from xpulpnn.errors import InputError
from xpulpnn.isa.machine import WORD_BYTES
from xpulpnn_sim.reference.programs.elf import Executable, Segment, Window, content_of, windows

FILES_BASE, MAX_FILES = 0x4000_0000, 256 << 20
_VARIABLE = "xp_files"
_NAME_BYTES = 100  # of a header; names end with a zero


def with_files(executable: Executable, folder: Path, ram: tuple[Window, ...]) -> Executable:
    """Return the program with the files of ``folder`` in its memory; unchanged if it opens none."""
    if not folder.is_dir():
        raise InputError(f"--files must be an existing folder, not {folder}")
    variable = executable.symbols.get(_VARIABLE)
    if variable is None:
        return executable
    data = _archive(folder)
    for base, size in windows(executable, ram):
        if base < FILES_BASE + len(data) and FILES_BASE < base + size:
            raise InputError(f"memory must leave 0x{FILES_BASE:08x} to --files, not have a piece at 0x{base:08x}")
    archive = Segment(FILES_BASE, data, len(data))
    segments = sorted((*(_patched(each, variable) for each in executable.segments), archive), key=lambda s: s.address)
    return replace(executable, segments=tuple(segments))


def _patched(segment: Segment, variable: int) -> Segment:
    at, pointer = variable - segment.address, FILES_BASE.to_bytes(WORD_BYTES, "little")
    if not 0 <= at < len(segment.data):
        return segment
    return replace(segment, data=segment.data[:at] + pointer + segment.data[at + WORD_BYTES :])


def _archive(folder: Path) -> bytes:
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    total = sum(path.stat().st_size for path in paths)
    if total > MAX_FILES:
        raise InputError(f"files in {folder} must have at most {MAX_FILES} bytes together, not {total}")
    written = BytesIO()
    with tarfile.open(fileobj=written, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for path in paths:
            entry, content = tarfile.TarInfo(path.relative_to(folder).as_posix()), content_of(path)
            if len(entry.name.encode()) >= _NAME_BYTES:
                raise InputError(f"paths in {folder} must have less than {_NAME_BYTES} bytes, not {entry.name}")
            entry.size = len(content)
            archive.addfile(entry, BytesIO(content))
    return written.getvalue()
