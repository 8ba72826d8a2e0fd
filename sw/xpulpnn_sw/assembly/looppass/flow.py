"""Facts about the blocks of a function: which registers somebody still reads, dominators, natural loops."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from xpulpnn_sw.assembly.looppass.listing import ListedFunction
from xpulpnn_sw.assembly.looppass.operation import ALL, Operation


def live_before(operations: Sequence[Operation], live: frozenset[int]) -> frozenset[int]:
    """Registers read later than a place, from those read later than some instructions after it."""
    for operation in reversed(operations):
        live = (live - operation.writes) | operation.reads
    return live


class FlowGraph:
    """Liveness, dominators and natural loops of a function as it stood when this was made."""

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
        # sets of blocks as the bits of a number: functions may have thousands of blocks
        every = (1 << len(self.blocks)) - 1
        self._dominators = [1 << i if block.is_entered else every for i, block in enumerate(self.blocks)]
        changed = True
        while changed:
            changed = False
            for index, block in enumerate(self.blocks):
                if block.is_entered:
                    continue
                found = every
                for predecessor in block.predecessors:
                    found &= self._dominators[predecessor]
                found |= 1 << index
                if found != self._dominators[index]:
                    self._dominators[index], changed = found, True

    def dominates(self, first: int, second: int) -> bool:
        """Return whether every way to block ``second`` leads through block ``first``."""
        return bool(self._dominators[second] >> first & 1)

    def natural_loops(self) -> list["NaturalLoop"]:
        """The loops with one entry, inner ones before those around them."""
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
        found, pending = {header}, list(latches)
        while pending:
            index = pending.pop()
            if index not in found:
                found.add(index)
                pending += self.blocks[index].predecessors
        return frozenset(found)

    def once_per_turn(self, loop: "NaturalLoop", block: int) -> bool:
        """Return whether no way leads from a block of a loop back to it without passing the header."""
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
    """A loop with one entry."""

    header: int  # the block every way into the loop leads through
    latches: tuple[int, ...]  # blocks that jump back to it
    blocks: frozenset[int]
