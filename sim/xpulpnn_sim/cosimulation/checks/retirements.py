"""Checks every retirement of a core or cluster in lock step with the instruction-set simulator."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np

from xpulpnn.isa.machine import WORD_BYTES
from xpulpnn_sim.cosimulation.model.model import Block, Windows
from xpulpnn_sim.reference.iss.cluster_lockstep import ClusterLockstep
from xpulpnn_sim.reference.iss.lockstep import Lockstep
from xpulpnn_sim.reference.programs.exits import DifferenceError


class Checker(ABC):
    """Receives the blocks of a run in program order and compares them with a reference."""

    @abstractmethod
    def __call__(self, block: Block) -> None: ...

    def finish(self, memory: Windows, retired: Sequence[int]) -> None:
        """Check the memory and the number of retirements of each hart at the end of a run that passed."""
        return


class RetirementCheck(Checker):
    """Executes each retired instruction in the instruction-set simulator, and compares both. ``compares_bus``: compare
    the accesses that the bus has granted, and the memory at the end without the words at ``changing``, which host or
    timer write. ``compares_lines``: hold a core to its interrupt lines, which it must not sample earlier."""

    def __init__(
        self,
        reference: Lockstep | ClusterLockstep,
        *,
        compares_bus: bool = True,
        changing: Sequence[int] = (),
        compares_lines: bool = False,
    ) -> None:
        self._reference, self._compares_bus, self._compares_lines = reference, compares_bus, compares_lines
        self._changing = {address // WORD_BYTES * WORD_BYTES for address in changing}

    def __call__(self, block: Block) -> None:
        harts = len(self._reference.harts)
        # the order of the accesses of a cluster is needed in any case
        grants = block.grants if self._compares_bus or harts > 1 else None
        lines = block.lines() if self._compares_lines else None
        self._require(self._reference.follow([*map(block.records, range(harts))], grants, lines))

    def _require(self, difference: DifferenceError | None) -> None:
        if difference is not None:
            raise difference

    def finish(self, memory: Windows, retired: Sequence[int]) -> None:
        self._require(self._reference.finish())
        harts = self._reference.harts
        compared = [hart.compared for hart in harts]
        if compared != list(retired):
            raise DifferenceError(f"retirements in lock step must be {list(retired)}, not {compared}")
        wrong: list[str] = []
        for base, content in memory.items() if self._compares_bus else ():
            expected = np.frombuffer(harts[0].iss.memory.read_bytes(base, content.size), np.uint32)
            got = content.view(np.uint32)
            wrong += [
                f"memory word at 0x{address:08x} must be 0x{expected[at]:x} after the run, not 0x{got[at]:x}"
                for at in np.flatnonzero(expected != got).tolist()
                if (address := base + WORD_BYTES * at) not in self._changing
            ]
        if wrong:
            raise DifferenceError(wrong[0], count=len(wrong))


class Checks:
    """The checkers of a run and their findings. They check one block while the next one is simulated."""

    def __init__(self, checkers: Sequence[Checker]) -> None:
        self.checkers = [*checkers]
        self._pool = ThreadPoolExecutor(1)
        self._pending: Future[None] | None = None
        self.mismatches = 0
        self.first: str | None = None
        self.position: int | None = None

    def feed(self, block: Block) -> None:
        """Start to check a block, which must not change until the next call or :meth:`wait`."""
        self.wait()
        if self.checkers and any(block.filled):
            self._pending = self._pool.submit(self._check, block)

    def note(self, text: str, position: int | None = None, count: int = 1) -> None:
        if not self.mismatches:
            self.first, self.position = text, position
        self.mismatches += count

    def _check(self, block: Block) -> None:
        for checker in [*self.checkers]:
            self._run(checker, checker, block)

    def _run(self, checker: Checker, method: Callable[..., None], *arguments: Any) -> None:
        try:
            method(*arguments)
        except DifferenceError as wrong:
            # later differences could be consequences of this one
            self.checkers.remove(checker)
            self.note(wrong.text, wrong.order, wrong.count)

    def wait(self) -> None:
        if self._pending is not None:
            self._pending.result()
            self._pending = None

    def finish(self, memory: Windows, retired: Sequence[int]) -> None:
        for checker in [*self.checkers]:
            if not self.mismatches:
                self._run(checker, checker.finish, memory, retired)

    def close(self) -> None:
        self._pool.shutdown()
