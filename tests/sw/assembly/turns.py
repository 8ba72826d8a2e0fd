"""Loops as a compiler writes them, one per comparison, direction and step, with the turns they take by arithmetic."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

MASK, SIGN = (1 << 32) - 1, 1 << 31
LIMIT = 40
"""Turns above this are not tried: some of these loops wrap around."""
VALUES = (0, 1, 2, 3, 5, 12, 24, 25, 0x7FFF_FFF8, 0x7FFF_FFFF, 0x8000_0000, 0x8000_0007, 0xFFFF_FFFD, 0xFFFF_FFFF)
STEPS = (1, -1, 2, -3, 4, 12, -16)


def signed(value: int) -> int:
    return (value & MASK ^ SIGN) - SIGN


TESTS: dict[str, Callable[[int, int], bool]] = {
    "bne": lambda a, b: a != b,
    "beq": lambda a, b: a == b,
    "blt": lambda a, b: signed(a) < signed(b),
    "bge": lambda a, b: signed(a) >= signed(b),
    "bltu": lambda a, b: a < b,
    "bgeu": lambda a, b: a >= b,
}


class Shape(NamedTuple):
    branch: str
    step: int
    is_swapped: bool
    is_first: bool

    @property
    def name(self) -> str:
        place = "first" if self.is_first else "last"
        return f"{self.branch}_{self.step}_{int(self.is_swapped)}_{place}".replace("-", "m")

    def goes_on(self, counter: int, bound: int) -> bool:
        first, second = (bound, counter) if self.is_swapped else (counter, bound)
        return TESTS[self.branch](first, second)

    def turns(self, counter: int, bound: int) -> int | None:
        """Number of times that the body runs; None for more than is tried."""
        if self.is_first and not self.goes_on(counter, bound):
            return 0
        for turn in range(1, LIMIT + 1):
            counter = counter + self.step & MASK
            if not self.goes_on(counter, bound):
                return turn
        return None

    def text(self) -> str:
        """The function: a0 counts to a1, a2 counts turns; returns a2 and leaves the counter in a global."""
        operands = "a1,a0" if self.is_swapped else "a0,a1"
        body = ["\taddi\ta2,a2,1", f"\taddi\ta0,a0,{self.step}", "\txor\ta3,a2,a0"]
        test = [f"\t{self.branch}\t{operands},.Lb_{self.name}"]
        if self.is_first:
            loop = [f"\tj\t.Lt_{self.name}", f".Lb_{self.name}:", *body, f".Lt_{self.name}:", *test]
        else:
            loop = [f".Lb_{self.name}:", *body, *test]
        end = ["\tlui\ta4,%hi(left)", "\tsw\ta0,%lo(left)(a4)", "\tmv\ta0,a2", "\tret"]
        head = [f"\t.globl\t{self.name}", f"\t.type\t{self.name}, @function", f"{self.name}:", "\tli\ta2,0"]
        return "\n".join([*head, *loop, *end, f"\t.size\t{self.name}, .-{self.name}", ""])


def shapes() -> Iterator[Shape]:
    for branch in TESTS:
        for step in STEPS:
            for is_swapped in (False, True):
                yield Shape(branch, step, is_swapped, False)
                if step in (1, -3, 4):
                    yield Shape(branch, step, is_swapped, True)


def assembly() -> str:
    return "\t.text\n" + "".join(shape.text() for shape in shapes())


def driver() -> str:
    """A program that calls every loop with every pair of values and says which give a wrong number."""
    lines = ["#include <stdint.h>", "#include <stdio.h>", "uint32_t left;"]
    cases: list[str] = []
    for shape in shapes():
        lines.append(f"uint32_t {shape.name}(uint32_t counter, uint32_t bound);")
        for counter in VALUES:
            for bound in VALUES:
                turns = shape.turns(counter, bound)
                if turns is not None:
                    cases.append(f'{{{shape.name}, "{shape.name}", {counter}u, {bound}u, {turns}, {shape.step}}},')
    lines += [
        "static const struct { uint32_t (*loop)(uint32_t, uint32_t); const char *name;",
        "    uint32_t counter, bound; int32_t turns, step; } cases[] = {",
        *cases,
        "};",
        "int main(void) {",
        "    int wrong = 0;",
        "    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {",
        "        uint32_t turns = cases[i].loop(cases[i].counter, cases[i].bound);",
        "        uint32_t end = cases[i].counter + (uint32_t)(cases[i].turns * cases[i].step);",
        "        if ((turns != (uint32_t)cases[i].turns || left != end) && wrong++ < 5)",
        '            printf("%s(%u, %u) = %u\\n", cases[i].name, (unsigned)cases[i].counter,',
        "                   (unsigned)cases[i].bound, (unsigned)turns);",
        "    }",
        f'    printf("{len(cases)} cases\\n");',
        "    return wrong != 0;",
        "}",
    ]
    return "\n".join(lines) + "\n"
