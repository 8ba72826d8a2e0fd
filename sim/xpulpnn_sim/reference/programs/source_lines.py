"""Lines of the sources that instructions of a program came from."""

from bisect import bisect_right
from functools import cached_property
from pathlib import Path

from xpulpnn_sim.reference.programs.objects import SourceLine, read_objects


class SourceLines:
    """The debug information of a program, read when the first line is asked for."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @cached_property
    def _lines(self) -> list[tuple[int, int, dict[int, SourceLine]]]:
        """First address, address behind, and the lines of each section of code; none of a program that is no file."""
        if not self._path.is_file():
            return []
        return [
            (section.address, section.address + len(section.data), dict(sorted(section.lines.items())))
            for item in read_objects(self._path)
            for section in item.sections
            if section.is_code
        ]

    def at(self, pc: int) -> str:
        """``main.c:12``; empty where the program does not tell."""
        for first, behind, lines in self._lines:
            if not first <= pc < behind:
                continue
            addresses = list(lines)
            position = bisect_right(addresses, pc) - 1
            if position >= 0:
                line = lines[addresses[position]]
                return f"{Path(line.path).name}:{line.line}"
        return ""
