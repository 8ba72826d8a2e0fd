"""Turns of a loop: its test, the register that counts, and the values known when the loop is entered.

A hardware loop needs a number of turns before it starts. The numbers made here are never too large, whatever the
registers hold: where a number may be too small, the test of the compiler stays behind the loop and starts it again.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from xpulpnn.isa.machine import WORD_MASK
from xpulpnn_sw.assembly.looppass.flow import FlowGraph, NaturalLoop
from xpulpnn_sw.assembly.looppass.operation import FlowKind, Operation

_RELATIONS = {"beq": "eq", "bne": "ne", "blt": "lt", "bge": "ge", "bltu": "ltu", "bgeu": "geu"}
_INVERSE = {
    "eq": "ne", "ne": "eq", "lt": "ge", "ge": "lt", "ltu": "geu", "geu": "ltu",
    "gt": "le", "le": "gt", "gtu": "leu", "leu": "gtu",
}  # fmt: skip
_SWAPPED = {
    "eq": "eq", "ne": "ne", "lt": "gt", "gt": "lt", "ge": "le", "le": "ge",
    "ltu": "gtu", "gtu": "ltu", "geu": "leu", "leu": "geu",
}  # fmt: skip
_UPWARD = frozenset({"ne", "lt", "ltu", "le", "leu"})
_DOWNWARD = frozenset({"ne", "gt", "gtu", "ge", "geu"})
_UNEQUAL = frozenset({"ne", "lt", "gt", "ltu", "gtu"})
_SIGN = 1 << 31


@dataclass(frozen=True, slots=True)
class Condition:
    """``first relation second`` of two registers."""

    relation: str
    first: int
    second: int

    def of(self, register: int) -> "Condition":
        """The same condition with ``register`` first, if it is one of the two."""
        if register == self.second != self.first:
            return Condition(_SWAPPED[self.relation], self.second, self.first)
        return self


def held_condition(branch: Operation, *, taken: bool) -> Condition | None:
    """Return the condition that holds after a branch; None for a comparison with an immediate."""
    relation = _RELATIONS.get(branch.name)
    if relation is None:
        return None
    held = relation if taken else _INVERSE[relation]
    return Condition(held, branch.values["rs1"], branch.values["rs2"])


@dataclass(frozen=True, slots=True)
class Counter:
    """The test of a loop: it goes on while ``register relation bound``, after ``register += step``."""

    register: int  # the register that counts
    bound: int  # the register that it is compared with, which stays the same; 0 is the number 0
    relation: str  # `ne lt le gt ge` and the unsigned ones
    step: int  # what each turn adds, not 0
    place: int  # block that adds it

    @property
    def is_ordered(self) -> bool:
        """Return whether the test is an order, so that it may fail from the start."""
        return self.relation != "ne"

    def turns(self, start: int, bound: int) -> int | None:
        """Turns of a loop that is tested at its end, from both numbers; None if it takes 2**32 or more."""
        size = abs(self.step)
        if not self.is_ordered:
            distance = (bound - start if self.step > 0 else start - bound) & WORD_MASK
            return distance // size if distance and distance % size == 0 else None
        if not self.relation.endswith("u"):
            start, bound = ((value & WORD_MASK ^ _SIGN) - _SIGN for value in (start, bound))
        else:
            start, bound = start & WORD_MASK, bound & WORD_MASK
        distance = bound - start if self.step > 0 else start - bound
        if self.relation[:2] in ("le", "ge"):
            distance += 1
        turns = max(1, -(-distance // size))
        end = start + turns * self.step
        low, high = (0, WORD_MASK) if self.relation.endswith("u") else (-_SIGN, _SIGN - 1)
        return turns if low <= end <= high and turns <= WORD_MASK else None


def find_counter(flow: FlowGraph, loop: NaturalLoop, test: Condition, end: int) -> Counter | str:
    """The counter of a loop whose turns end with block ``end`` and go on under ``test``, or why there is none."""
    written = {
        register: [(index, op) for index in loop.blocks for op in flow.blocks[index].all if register in op.writes]
        for register in {test.first, test.second}
    }
    changing = [register for register, writers in written.items() if writers]
    if len(changing) != 1 or test.first == test.second:
        return "both sides of the test change" if changing else "nothing in the test changes"
    test = test.of(changing[0])
    register, writers = test.first, written[test.first]
    if len(writers) != 1:
        return "the counter changes at several places"
    place, writer = writers[0]
    step = writer.step(register)
    if not step:
        return "the counter does not change by a constant"
    if not flow.dominates(place, end) or not flow.once_per_turn(loop, place):
        return "the counter does not change once in every turn"
    if test.relation not in (_UPWARD if step > 0 else _DOWNWARD):
        return "the counter runs away from its bound"
    return Counter(register, test.second, test.relation, step, place)


@dataclass(slots=True)
class _Tracked:
    """Trace the value of a register back: to a register of that time, or a number."""

    register: int = 0
    number: int | None = None

    def matches(self, register: int) -> bool:
        return (register == 0 and self.number == 0) or (self.number is None and register == self.register)


@dataclass(frozen=True, slots=True)
class Entry:
    """Known values of counter and bound when a loop is entered from outside."""

    start: int | None = None  # value of the counter if it is known
    bound: int | None = None  # value of the bound if it is known
    relations: frozenset[str] = frozenset()  # what holds between counter and bound, in this order

    def turns(self, counter: Counter) -> int | None:
        """Turns as a number, if both values are numbers."""
        if self.start is None or self.bound is None:
            return None
        return counter.turns(self.start, self.bound)

    def is_exact(self, counter: Counter) -> bool:
        """Return whether the distance between counter and bound is the number of turns."""
        if abs(counter.step) != 1:
            return False
        if not counter.is_ordered:
            return bool(self.relations & _UNEQUAL)
        return counter.relation in self.relations and counter.relation[:2] in ("lt", "gt")


def at_entry(flow: FlowGraph, loop: NaturalLoop, counter: Counter) -> Entry:
    """Follow the only way into a loop backwards and collect what is known."""
    tracked = [_Tracked(counter.register), _Tracked(counter.bound, 0 if counter.bound == 0 else None)]
    known: list[int | None] = [None, tracked[1].number]
    relations: set[str] = set()
    came_from, seen = loop.header, set(loop.blocks)
    while True:
        block = flow.blocks[came_from]
        outside = [index for index in block.predecessors if index not in loop.blocks]
        if block.is_entered or len(outside) != 1 or outside[0] in seen:
            break
        index = outside[0]
        seen.add(index)
        relations |= _edge_facts(flow, index, came_from, tracked)
        if not _track(flow.blocks[index].all, tracked):
            break
        came_from = index
    for number, one in enumerate(tracked):
        known[number] = one.number
    return Entry(known[0], known[1], frozenset(relations))


def _edge_facts(flow: FlowGraph, index: int, target: int, tracked: Sequence[_Tracked]) -> set[str]:
    block = flow.blocks[index]
    branch = block.terminator
    if branch is None or branch.kind is not FlowKind.BRANCH or block.successors[0] == block.successors[1]:
        return set()
    held = held_condition(branch, taken=block.successors[1] == target)
    if held is None:
        return set()
    counter, bound = tracked
    if counter.matches(held.first) and bound.matches(held.second):
        return {held.relation}
    if counter.matches(held.second) and bound.matches(held.first):
        return {_SWAPPED[held.relation]}
    return set()


def _track(operations: Sequence[Operation], tracked: Sequence[_Tracked]) -> bool:
    """Go back over instructions; false when a value comes from something that is not followed."""
    for operation in reversed(operations):
        for one in tracked:
            if one.number is not None or one.register not in operation.writes or one.register == 0:
                continue
            number = operation.constant(one.register)
            if number is not None:
                one.number = number & WORD_MASK
            elif operation.name == "addi" and operation.values.get("imm12") == 0:
                one.register = operation.values["rs1"]
            else:
                return False
    return True
