"""Natural loops and their numbers of iterations, derived from the test, the counter and values known before the loop.

A hardware loop needs its number of iterations before it starts. The computed number is never too large, whatever the
registers hold. If it may be too small, the compiler's test stays after the loop and starts the loop again.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from xpulpnn.isa.machine import WORD_MASK
from xpulpnn_sw.assembly.looppass.listing import ListedFunction
from xpulpnn_sw.assembly.looppass.operation import ALL, FlowKind, ListedOperation

_SWAPPED = {
    "eq": "eq", "ne": "ne", "lt": "gt", "gt": "lt", "ge": "le", "le": "ge",
    "ltu": "gtu", "gtu": "ltu", "geu": "leu", "leu": "geu",
}  # fmt: skip
_INVERSE = {"eq": "ne", "ne": "eq", "lt": "ge", "ge": "lt", "ltu": "geu", "geu": "ltu"}  # inverse relations of branches
_UPWARD = frozenset({"ne", "lt", "ltu", "le", "leu"})
_DOWNWARD = frozenset({"ne", "gt", "gtu", "ge", "geu"})
_UNEQUAL = frozenset({"ne", "lt", "gt", "ltu", "gtu"})
_SIGN = 1 << 31


def live_before(operations: Sequence[ListedOperation], live: frozenset[int]) -> frozenset[int]:
    for operation in reversed(operations):
        live = (live - operation.writes) | operation.reads
    return live


class FlowGraph:
    def __init__(self, function: ListedFunction) -> None:
        self.blocks = function.blocks
        self._find_live()
        self._find_dominators()

    def _find_live(self) -> None:
        count = len(self.blocks)
        reads: list[frozenset[int]] = [live_before(block.all, frozenset()) for block in self.blocks]
        writes = [frozenset(r for op in block.all for r in op.writes) for block in self.blocks]
        self.live_in: list[frozenset[int]] = list(reads)
        self.live_out: list[frozenset[int]] = [frozenset()] * count
        changed = True
        while changed:
            changed = False
            for index in reversed(range(count)):
                out = frozenset[int]()
                for successor in self.blocks[index].successors:
                    out |= ALL if successor < 0 else self.live_in[successor]
                live = reads[index] | (out - writes[index])
                if out != self.live_out[index] or live != self.live_in[index]:
                    self.live_out[index], self.live_in[index] = out, live
                    changed = True

    def _find_dominators(self) -> None:
        # sets of blocks are bit masks: functions may have thousands of blocks
        every = (1 << len(self.blocks)) - 1
        self._dominators = [1 << i if block.is_entered else every for i, block in enumerate(self.blocks)]
        changed = True
        while changed:
            changed = False
            for index, block in enumerate(self.blocks):
                if block.is_entered:
                    continue
                dominators = every
                for predecessor in block.predecessors:
                    dominators &= self._dominators[predecessor]
                dominators |= 1 << index
                if dominators != self._dominators[index]:
                    self._dominators[index], changed = dominators, True

    def dominates(self, first: int, second: int) -> bool:
        return bool(self._dominators[second] >> first & 1)

    def natural_loops(self) -> list["NaturalLoop"]:
        latches: dict[int, list[int]] = {}
        for index, block in enumerate(self.blocks):
            for successor in block.successors:
                if successor >= 0 and self.dominates(successor, index):
                    latches.setdefault(successor, []).append(index)
        loops = [
            NaturalLoop(header, tuple(sorted(set(ends))), self._between(header, ends))
            for header, ends in latches.items()
        ]
        return sorted(loops, key=lambda loop: (len(loop.blocks), loop.header))

    def _between(self, header: int, latches: Iterable[int]) -> frozenset[int]:
        body, pending = {header}, list(latches)
        while pending:
            index = pending.pop()
            if index not in body:
                body.add(index)
                pending += self.blocks[index].predecessors
        return frozenset(body)

    def once_per_iteration(self, loop: "NaturalLoop", block: int) -> bool:
        """Return whether a block of a loop is executed at most once per iteration, that is, in no inner loop."""
        pending, seen = [block], set[int]()
        while pending:
            for successor in self.blocks[pending.pop()].successors:
                if successor == block and block != loop.header:
                    return False
                if successor in loop.blocks and successor != loop.header and successor not in seen:
                    seen.add(successor)
                    pending.append(successor)
        return True


@dataclass(frozen=True, slots=True)
class NaturalLoop:
    header: int  # block through which every path into the loop leads
    latches: tuple[int, ...]  # blocks that jump back to the header
    blocks: frozenset[int]


@dataclass(frozen=True, slots=True)
class Condition:
    relation: str
    first: int
    second: int


class LoopError(Exception):
    """The reason why a loop cannot become a hardware loop."""


def held_condition(branch: ListedOperation, *, taken: bool) -> Condition:
    relation = branch.name.removeprefix("b")
    if relation not in _INVERSE:
        raise LoopError("tested against an immediate")
    held = relation if taken else _INVERSE[relation]
    return Condition(held, branch.values["rs1"], branch.values["rs2"])


@dataclass(frozen=True, slots=True)
class Counter:
    """Counter of a loop: after ``register += step``, the loop continues if ``register relation bound``."""

    register: int  # register that counts
    bound: int  # invariant register that the counter is compared with; 0 is the number 0
    relation: str  # `ne`, `lt`, `le`, `gt`, `ge`, `ltu`, `leu`, `gtu` or `geu`
    step: int  # constant that each iteration adds, not 0
    place: int  # block that adds the step

    @property
    def is_ordered(self) -> bool:
        """True if the test is for less or greater, which may fail before the first iteration; False for inequality."""
        return self.relation != "ne"

    def turns(self, start: int, bound: int) -> int | None:
        """Return the number of iterations of a loop tested at its end; None if there are 2**32 or more."""
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


def find_counter(flow: FlowGraph, loop: NaturalLoop, test: Condition, end: int) -> Counter:
    """Return the counter of a loop that continues under ``test``; ``end`` is the last block of an iteration."""
    written = {
        register: [(index, op) for index in loop.blocks for op in flow.blocks[index].all if register in op.writes]
        for register in {test.first, test.second}
    }
    changing = [register for register, writers in written.items() if writers]
    if len(changing) != 1 or test.first == test.second:
        raise LoopError("both sides of the test change" if changing else "nothing in the test changes")
    if changing[0] == test.second:
        test = Condition(_SWAPPED[test.relation], test.second, test.first)
    register, writers = test.first, written[test.first]
    if len(writers) != 1:
        raise LoopError("the counter changes at several places")
    place, writer = writers[0]
    step = writer.step(register)
    if not step:
        raise LoopError("the counter does not change by a constant")
    if not flow.dominates(place, end) or not flow.once_per_iteration(loop, place):
        raise LoopError("the counter does not change once in every turn")
    if test.relation not in (_UPWARD if step > 0 else _DOWNWARD):
        raise LoopError("the counter runs away from its bound")
    return Counter(register, test.second, test.relation, step, place)


@dataclass(slots=True)
class _Tracked:
    register: int = 0
    number: int | None = None
    added: int = 0

    def matches(self, register: int) -> bool:
        if self.number is not None:
            return register == 0 == self.number
        return register == self.register and not self.added


@dataclass(frozen=True, slots=True)
class Entry:
    start: int | None = None  # value of the counter if it is known
    bound: int | None = None  # value of the bound if it is known
    distance: int | None = None  # distance from counter to bound, if known without their values
    relations: frozenset[str] = frozenset()  # relations that hold between counter and bound, in this order

    def turns(self, counter: Counter) -> int | None:
        if self.start is not None and self.bound is not None:
            return counter.turns(self.start, self.bound)
        return None if self.distance is None or counter.is_ordered else counter.turns(0, self.distance)

    def is_exact(self, counter: Counter) -> bool:
        """Return whether the count is bound minus counter: the step is 1 or -1, and the test holds at entry."""
        if abs(counter.step) != 1:
            return False
        if not counter.is_ordered:
            return bool(self.relations & _UNEQUAL)
        return counter.relation in self.relations and counter.relation[:2] in ("lt", "gt")


def at_entry(flow: FlowGraph, loop: NaturalLoop, counter: Counter) -> Entry:
    """Return the known values and relations of counter and bound before a loop; none if several paths lead there."""
    tracked = [_Tracked(counter.register), _Tracked(counter.bound, 0 if counter.bound == 0 else None)]
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
    first, second = tracked
    is_alike = first.number is None is second.number and first.register == second.register
    distance = second.added - first.added if is_alike else None
    return Entry(first.number, second.number, distance, frozenset(relations))


def _edge_facts(flow: FlowGraph, index: int, target: int, tracked: Sequence[_Tracked]) -> set[str]:
    block = flow.blocks[index]
    branch = block.terminator
    if branch is None or branch.kind is not FlowKind.BRANCH or block.successors[0] == block.successors[1]:
        return set()
    try:
        held = held_condition(branch, taken=block.successors[1] == target)
    except LoopError:
        return set()
    counter, bound = tracked
    if counter.matches(held.first) and bound.matches(held.second):
        return {held.relation}
    if counter.matches(held.second) and bound.matches(held.first):
        return {_SWAPPED[held.relation]}
    return set()


def _track(operations: Sequence[ListedOperation], tracked: Sequence[_Tracked]) -> bool:
    """Trace values backwards through instructions; return False if the origin of a value is not known."""
    for operation in reversed(operations):
        for value in tracked:
            if value.number is not None or value.register not in operation.writes or value.register == 0:
                continue
            number = operation.constant(value.register)
            if number is not None:
                value.number = number + value.added & WORD_MASK
            elif operation.name == "addi" and "imm12" in operation.values:
                value.register = operation.values["rs1"]
                value.added += operation.values["imm12"]
            else:
                return False
    return True
