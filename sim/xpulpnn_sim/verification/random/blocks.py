"""The tree of which a program consists: what the generator builds and the shrinker prunes."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from xpulpnn.isa.machine import WORD_BYTES

_LONG = ("li ", "la ")  # statements that may stand for two instructions


def is_label(line: str) -> bool:
    """Return whether a line holds nothing but a label."""
    return line.endswith(":")


def statement(line: str) -> str:
    """A line without its label."""
    label, colon, rest = line.partition(": ")
    return rest if colon and " " not in label else line


def _bytes(line: str) -> int:
    if is_label(line):
        return 0
    return 2 * WORD_BYTES if statement(line).startswith(_LONG) else WORD_BYTES


@dataclass(frozen=True, slots=True)
class Block:
    """Some assembly lines around the blocks they control.

    A block can be left out, and its children can stand in its place: what remains may behave differently but is a
    program. Targets are labels in the head or tail of the block itself or of one that encloses it.
    """

    kind: str  # what the generator meant; a comment of the listing
    head: tuple[str, ...] = ()  # lines before the children
    children: tuple["Block", ...] = ()  # the controlled blocks
    tail: tuple[str, ...] = ()  # lines behind the children

    def lines(self) -> Iterator[str]:
        """All lines in order."""
        yield from self.head
        for child in self.children:
            yield from child.lines()
        yield from self.tail

    @property
    def bytes(self) -> int:
        """An upper bound of the bytes of the block."""
        return sum(map(_bytes, self.lines()))


def indented(lines: Iterable[str]) -> list[str]:
    """Labels at the margin, everything else behind it."""
    return [f"{'' if is_label(line) else '    '}{line.strip()}" for line in lines]


def total_bytes(blocks: tuple[Block, ...]) -> int:
    """An upper bound of the bytes of several blocks."""
    return sum(block.bytes for block in blocks)


def count_statements(blocks: Iterable[Block]) -> int:
    """Lines that are not merely labels."""
    return sum(not is_label(line) for block in blocks for line in block.lines())
