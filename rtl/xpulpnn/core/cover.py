"""Two-level covers of decoder outputs: few wide bit patterns in place of one pattern per instruction.

A pattern is a string over ``0``, ``1`` and ``-``, as in the instruction table and in Amaranth's ``Case``. Words that
are no instruction may decode to anything (the ``illegal`` output covers them), so a pattern may grow until it touches
an instruction that needs another value: the expand step of the Espresso method.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple


def meet(one: str, other: str) -> bool:
    """Return whether some word matches both patterns."""
    return all(a == b or "-" in (a, b) for a, b in zip(one, other, strict=True))


class Cube(NamedTuple):
    """The words ``w`` with ``w & mask == match``."""

    mask: int
    match: int

    @classmethod
    def of(cls, pattern: str) -> "Cube":
        """The cube of a pattern string."""
        fixed = pattern.replace("0", "1").replace("-", "0")
        return cls(int(fixed, 2), int(pattern.replace("-", "0"), 2))

    def pattern(self, width: int) -> str:
        """The pattern string, ``width`` characters from the most significant bit down."""
        bits = (("-", "-"), ("0", "1"))
        return "".join(bits[self.mask >> i & 1][self.match >> i & 1] for i in reversed(range(width)))

    def apart(self, other: "Cube") -> int:
        """The bits that are fixed in both cubes, each to another value; 0 if some word lies in both."""
        return (self.match ^ other.match) & self.mask & other.mask

    def contains(self, other: "Cube") -> bool:
        """Return whether every word of ``other`` lies in this cube."""
        return not self.mask & ~other.mask and not (self.match ^ other.match) & self.mask


def expanded_cover(on: Iterable[str], off: Iterable[str]) -> list[str]:
    """Patterns that hold every word of ``on`` and none of ``off``; the rest is free. Patterns share one width."""
    on = list(on)
    width = len(on[0])
    blocked = [Cube.of(pattern) for pattern in off]
    cover: list[Cube] = []
    for cube in map(Cube.of, on):
        if any(wide.contains(cube) for wide in cover):
            continue
        mask = cube.mask
        # the bits that tell each blocked cube from this one: the last of them has to stay
        apart = {cube.apart(other) for other in blocked}
        for bit in range(width):
            flag = 1 << bit
            if mask & flag and apart.isdisjoint((0, flag)):
                mask &= ~flag
                apart = {bits & ~flag for bits in apart}
        cover.append(Cube(mask, cube.match & mask))
    return [cube.pattern(width) for cube in cover]


def merged_cover(patterns: Sequence[str]) -> list[str]:
    """Fewer patterns that hold exactly the same words: pairs that differ in one fixed bit become one."""
    width = len(patterns[0])
    cubes = {Cube.of(pattern) for pattern in patterns}
    for bit in range(width):
        flag = 1 << bit
        for cube in sorted(cubes):
            twin = Cube(cube.mask, cube.match ^ flag)
            if cube.mask & flag and cube in cubes and twin in cubes:
                cubes -= {cube, twin}
                cubes.add(Cube(cube.mask & ~flag, cube.match & ~flag))
    return [cube.pattern(width) for cube in sorted(cubes)]
