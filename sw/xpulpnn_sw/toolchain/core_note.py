"""Notes in programs about the core they were compiled for: a section of the ELF file that is not loaded.

Every compiled file has one line in it, the linker puts them together:
``core xpulpnn; extensions XpulpV2 XpulpNN; widths 16 8 4 2; groups``. A core that has less cannot run the program.
Files compiled for a cluster have a second line: ``cluster; cores 8; tcdm 131072``.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from xpulpnn.config import PRESETS, CoreConfig
from xpulpnn.errors import InputError
from xpulpnn.isa.csr import CsrGroup
from xpulpnn.isa.formats import BASE_EXTENSIONS, Extension

NOTE_SECTION = ".xpulpnn.core"

_KEYS = ("core", "extensions", "widths", "groups")


@dataclass(frozen=True, slots=True)
class CoreNote:
    """The core that a part of a program was compiled for."""

    name: str  # what the core is called: the preset and its settings
    extensions: frozenset[str]  # names of the extensions beyond RV32IMC
    widths: frozenset[int]  # SIMD element widths in bits
    groups: frozenset[str]  # names of the optional groups of CSRs

    @classmethod
    def of(cls, config: CoreConfig, name: str) -> "CoreNote":
        """Return the note of a core."""
        return cls(
            name,
            frozenset(extension.value for extension in config.extensions - BASE_EXTENSIONS),
            config.widths,
            frozenset(group.name for group in config.csr_groups - {CsrGroup.BASE, CsrGroup.HWLOOP}),
        )

    def lacks(self, needed: "CoreNote") -> list[str]:
        """Return in words the features of ``needed`` that this core does not have."""
        found = [extension.value for extension in Extension if extension.value in needed.extensions - self.extensions]
        found += [f"elements of {width} bits" for width in sorted(needed.widths - self.widths, reverse=True)]
        if needed.groups - self.groups:
            found.append("the performance counters")
        return found


def core_name(config: CoreConfig) -> str:
    """The preset that has just what ``config`` has, or ``a core of its own``."""
    wanted = CoreNote.of(config, "")
    names = (name for name, preset in PRESETS.items() if CoreNote.of(preset, "") == wanted)
    return next(names, "a core of its own")


def core_note(config: CoreConfig, name: str) -> str:
    """The assembly text of the note."""
    note = CoreNote.of(config, name)
    values = (name, *(" ".join(map(str, sorted(part))) for part in (note.extensions, note.widths, note.groups)))
    line = "; ".join(f"{key} {value}".rstrip() for key, value in zip(_KEYS, values, strict=True))
    return f'\n\t.section {NOTE_SECTION},"",@progbits\n\t.ascii "{line}\\n"\n'


def read_notes(section: bytes) -> tuple[CoreNote, ...]:
    """The different notes of a program; a line that is none is passed over."""
    notes: list[CoreNote] = []
    for line in dict.fromkeys(section.decode(errors="replace").strip("\0\n").split("\n")):
        parts = [part.partition(" ") for part in line.strip("\0").split("; ")]
        if tuple(key for key, _space, _value in parts) != _KEYS:
            continue
        name, *sets = (value for _key, _space, value in parts)
        extensions, widths, groups = (frozenset(text.split()) for text in sets)
        if all(width.isdecimal() for width in widths):
            notes.append(CoreNote(name, extensions, frozenset(map(int, widths)), groups))
    return tuple(notes)


_CLUSTER = re.compile(rb"^cluster; cores (\d+); tcdm (\d+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class ClusterNote:
    """The cluster that a program was compiled for."""

    cores: int  # how many cores
    tcdm_bytes: int  # size of their shared memory


def cluster_note(cores: int, tcdm_bytes: int) -> str:
    """The assembly text of the note of a cluster; it follows that of the core."""
    return f'\t.ascii "cluster; cores {cores}; tcdm {tcdm_bytes}\\n"\n'


def read_cluster_note(section: bytes) -> ClusterNote | None:
    """Return the cluster that all parts of a program need together; None: it is for one core."""
    found = [tuple(map(int, match.groups())) for match in _CLUSTER.finditer(section)]
    if not found:
        return None
    cores, sizes = zip(*found, strict=True)
    return ClusterNote(max(cores), max(sizes))


def require_core(notes: Iterable[CoreNote], config: CoreConfig, program: str, name: str) -> None:
    """Raise :class:`InputError` unless ``config``, called ``name``, has all that the program was compiled for."""
    core = CoreNote.of(config, name)
    for note in notes:
        lacking = core.lacks(note)
        if lacking:
            raise InputError(
                f"{program} must be compiled for {name}, not for {note.name}: {name} has no {', no '.join(lacking)}"
            )


def presets_with(extension: str, width: int | None = None) -> list[str]:
    """Names of the presets that have an extension, and the element width if one is given."""
    notes = (CoreNote.of(config, name) for name, config in PRESETS.items())
    return [note.name for note in notes if extension in note.extensions and (width is None or width in note.widths)]
