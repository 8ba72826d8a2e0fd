"""CV-X-IF: a core that offloads instructions as one of four cores does, and checks the coprocessor in every cycle."""

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from random import Random

from cocotb.triggers import Event

from xpulpnn.isa.insn import Insn
from xpulpnn.isa.machine import XLEN
from xpulpnn_sim.benches.agents.base import Agent, Dut, PortDriver, sample
from xpulpnn_sim.benches.agents.scoreboard import Scoreboard

_PATIENCE = 500  # cycles without a handshake after which the coprocessor counts as stuck
_LONGEST = 32  # cycles after its result, and after its last load, in which an instruction may keep the units
_RD_LSB, _RD_MASK = 7, 31
_OPERANDS = ("rs1", "rs2")


@dataclass(frozen=True, slots=True, kw_only=True)
class CoreBehaviour:
    """Behaviour of a core at the interface; numbers are probabilities in a cycle."""

    offer: float = 0.8  # offers its next instruction
    withdraw: float = 0.2  # withdraws a request that is not accepted; half of these instructions never return
    commit: float = 0.6  # commits or kills the oldest undecided instruction
    commits_at_issue: bool = False  # commits every instruction in the cycle of its issue
    batch: float = 0.0  # commits or kills not the oldest one, but one of all, with all older or younger ones
    kill: float = 0.0  # kills instead of committing, which kills all younger instructions too
    issues_with_kill: bool = False  # offers an instruction in the cycle of a kill, which is killed, too
    drop: float = 0.0  # drops the only accepted instruction without a kill; the next may have its identifier
    shares_ids: bool = False  # may give the identifier of a committed instruction to the next one
    stray: float = 0.0  # commits or kills an identifier that no undecided instruction has
    late_operands: float = 0.0  # an operand is not valid yet
    splits: float = 0.0  # gives the operands after the issue, if there is a register interface
    takes: float = 1.0  # takes a result
    in_order: bool = False  # takes only the result of the instruction in the last stage, and keeps ready until then
    any_result: bool = False  # waits after an instruction that writes back, until any result
    stages: int = 1 << 10  # instructions under way, all but one of them committed or all but one not


CORES: Mapping[str, CoreBehaviour] = {
    "xif": CoreBehaviour(
        batch=0.2, kill=0.1, issues_with_kill=True, stray=0.2, late_operands=0.3, splits=0.3, takes=0.6
    ),
    "cv32e40x": CoreBehaviour(kill=0.1, drop=0.1, shares_ids=True, takes=0.6, in_order=True, stages=3),
    "cv32e40px": CoreBehaviour(commits_at_issue=True),
    "cve2": CoreBehaviour(commits_at_issue=True, any_result=True),
    "cva6": CoreBehaviour(commits_at_issue=True, late_operands=0.3),
}
"""Cores by the name of their preset; the first does what the specification allows."""


@dataclass(slots=True, eq=False)
class Offload:
    """An instruction that is offered to the coprocessor, and what becomes of it."""

    word: int
    rs1: int
    rs2: int
    insn: Insn | None  # None if the coprocessor must refuse it
    id: int = 0
    # cycles of issue, commit and result
    issued: int = -1
    committed: int = -1
    finished: int = -1
    killed: bool = False
    data: int | None = None  # expected value of rd, if it is written
    exccode: int | None = None  # expected exception


@dataclass(frozen=True, slots=True)
class _Load:
    offload: Offload
    address: int
    is_first: bool
    is_last: bool


Execute = Callable[[Offload], tuple[int | None, list[int]]]
"""Executes an instruction on a golden model; returns the value of rd, if written, and the addresses of loads."""


class XifCore(Agent):
    """The only writer of the issue, register, commit and result ports; executes what it commits on a golden model.

    It checks answers to requests, results (values, order, valid and constant until taken, after the commit) and
    progress.
    """

    def __init__(self, dut: Dut, behaviour: CoreBehaviour, execute: Execute, rng: Random) -> None:
        super().__init__(dut)
        self.responds = behaviour.commits_at_issue
        self.cycle = 0
        self.loads: deque[_Load] = deque()  # loads of committed instructions that are not requested yet
        self.behaviour, self._execute, self._rng, self._board = behaviour, execute, rng, Scoreboard()
        self._drivers = {name: PortDriver(dut, f"{name}__") for name in ("issue", "register", "commit", "result")}
        self.loads_by_core, self._has_register = hasattr(dut, "mem__valid"), hasattr(dut, "register__valid")
        names = ["accept", "writeback", "loadstore", *(["register_read"] if self._has_register else [])]
        self._answer = {name: getattr(dut, f"issue__{name}") for name in names}
        self._ready = {name: getattr(dut, f"{name}__ready") for name in ("issue", *(["register"] * self._has_register))}
        names = ("id", "data", "rd", "we", "exc", "exccode")
        self._result_valid, self._result = dut.result__valid, {name: getattr(dut, f"result__{name}") for name in names}
        self._ids = 1 << len(dut.issue__id)
        self._program: deque[Offload] = deque()
        self._offered: Offload | None = None
        self._registers: Offload | None = None  # instruction whose operands are offered
        self._operands = 0  # valid ones of these, a bit each
        self._lacking: list[Offload] = []  # accepted, but their operands are not
        self._undecided: list[Offload] = []  # neither committed nor killed, refused ones included
        self._dropped: list[Offload] = []  # accepted and dropped without a kill since the last commit
        self._unfinished: deque[Offload] = deque()  # committed, without a result
        self._blocking: Offload | None = None  # instruction whose result the core waits for before it goes on
        self._kills = self._takes = False
        self._in_last_stage: Offload | None = None
        self._shown: dict[str, int] = {}  # result that is not taken yet
        self._last_id, self._may_repeat_id, self._waited, self._last_work = 0, False, 0, 0
        self._done = Event()

    async def run(self, program: Iterable[Offload]) -> None:
        """Offer these instructions; return in the middle of the cycle in which all are over."""
        self._program += program
        self._done.clear()
        await self._done.wait()

    def next_load(self, address: int, last: int | None = None, *, begins: bool = True) -> Offload:
        """Check a load that the coprocessor requests in this cycle; ``begins`` in its first cycle."""
        assert self.loads, f"load of {address:#x}, but no committed instruction loads"
        load = self.loads[0]
        self._board.equal(hex(address), hex(load.address), f"address of a load of {self._text(load.offload)}")
        assert load.offload.committed < self.cycle, f"load of {address:#x} before the commit"
        if last is not None:
            self._board.equal(last, int(load.is_last), "last load of an instruction")
        if self.behaviour.in_order and ((load.is_first and begins) or self.loads_by_core):
            waits = self._takes and self._unfinished[0] is load.offload
            # a load by a port may follow the result
            in_turn = waits or (load.offload.finished >= 0 and not self.loads_by_core)
            assert in_turn, f"load of {address:#x} before its instruction is in the last stage: EX is executed twice"
        if self.loads_by_core:
            assert not sample(self._result_valid), f"load of {address:#x} with the result of its instruction"
        return load.offload

    def refuse_loads(self, offload: Offload, exccode: int) -> None:
        """Expect an exception in the result of an instruction, and no more loads of it."""
        offload.exccode = exccode
        self.loads = deque(load for load in self.loads if load.offload is not offload)

    @staticmethod
    def _text(offload: Offload) -> str:
        name = offload.insn.mnemonic if offload.insn else "refused"
        return f"{name} {offload.word:#010x} rs1={offload.rs1:#x} rs2={offload.rs2:#x} id={offload.id}"

    def drive(self) -> None:
        decided = None
        if not self.behaviour.commits_at_issue:
            self._drop()
            decided = self._decide()
        self._kills = decided is not None and decided.killed and decided.insn is not None
        killed = self._kills and not self.behaviour.issues_with_kill
        if self._offered is not None and (killed or self._happens("withdraw")):
            self._return([self._offered])
            self._offered = None
        if self._offered is None and not killed and self._may_offer() and self._happens("offer"):
            self._offered = self._program.popleft()
            self._offered.id = self._next_id()
        self._drive_commit(decided)
        self._drive_request()
        self._drive_ready()

    def _may_offer(self) -> bool:
        undecided, stages = len(self._undecided), self.behaviour.stages
        has_room = undecided < stages - 1 and undecided + len(self._unfinished) < stages
        return bool(self._program) and has_room and self._blocking is None

    def _happens(self, event: str) -> bool:
        probability: float = getattr(self.behaviour, event)
        return probability > 0 and self._rng.random() < probability

    def _return(self, offloads: Iterable[Offload]) -> None:
        """Offer instructions again that were withdrawn or killed, or give them up."""
        if self._rng.random() < 0.5:
            again = [Offload(offload.word, offload.rs1, offload.rs2, offload.insn) for offload in offloads]
            self._program.extendleft(reversed(again))

    def _drop(self) -> None:
        if len(self._undecided) == 1 and self._undecided[0].insn is not None and self._happens("drop"):
            self._dropped.append(self._undecided.pop())
            self._return(self._dropped[-1:])
            self._may_repeat_id = True

    def _decide(self) -> Offload | None:
        """Commit an instruction, and the older ones with it, or kill it, and the younger ones unless it was refused."""
        undecided = self._undecided
        has_room = len(self._unfinished) < self.behaviour.stages - 1
        if not (undecided and has_room and self._happens("commit")):
            return None
        place = self._rng.randrange(len(undecided)) if self._happens("batch") else 0
        decided = undecided[place]
        decided.killed = decided.insn is None or self._happens("kill")
        if decided.insn is None:
            undecided.remove(decided)
        elif decided.killed:
            self._return(undecided[place:])
            self._lacking = [offload for offload in self._lacking if offload not in undecided[place:]]
            del undecided[place:]
        else:
            accepted = [offload for offload in undecided[: place + 1] if offload.insn is not None]
            del undecided[: place + 1]
            for offload in accepted:
                self._commit(offload)
        return decided

    def _drive_commit(self, decided: Offload | None) -> None:
        if decided is not None:
            self._drivers["commit"].drive(valid=1, id=decided.id, kill=int(decided.killed))
            return
        number = self._rng.randrange(self._ids)
        known = {offload.id for offload in (*self._undecided, *([self._offered] if self._offered else []))}
        valid = number not in known and self._happens("stray")
        self._drivers["commit"].drive(valid=int(valid), id=number, kill=self._rng.randrange(2))

    def _commit(self, offload: Offload) -> None:
        self._dropped.clear()
        self._may_repeat_id = self._may_repeat_id or (self.behaviour.shares_ids and not self._undecided)
        offload.committed = self.cycle
        offload.data, addresses = self._execute(offload)
        last = len(addresses) - 1
        self.loads += (_Load(offload, address, not at, at == last) for at, address in enumerate(addresses))
        self._unfinished.append(offload)

    def _next_id(self) -> int:
        """Return an identifier that no undecided instruction has, nor a committed one unless the core shares them."""
        if not self._may_repeat_id or self._rng.random() < 0.5:
            self._last_id = (self._last_id + 1) % self._ids
        used = {offload.id for offload in self._undecided}
        if not self.behaviour.shares_ids:
            used |= {offload.id for offload in self._unfinished}
        while self._last_id in used:
            self._last_id = (self._last_id + 1) % self._ids
        return self._last_id

    def _drive_request(self) -> None:
        offload = self._offered
        self._drivers["issue"].drive(valid=int(offload is not None))
        if offload is not None:
            self._drivers["issue"].drive(instr=offload.word, id=offload.id)
        if self._has_register and (offload is None or self._happens("splits")):
            offload = self._lacking[0] if self._lacking else None
        if offload is not self._registers:
            self._registers, self._operands = offload, 0
        if self._has_register:
            self._drivers["register"].drive(valid=int(offload is not None), id=offload.id if offload else 0)
        values: dict[str, int] = {}
        for place, name in enumerate(_OPERANDS if offload else ()):
            if not self._happens("late_operands"):
                self._operands |= 1 << place
            late = not self._operands >> place & 1
            values[name] = self._rng.getrandbits(XLEN) if late else getattr(offload, name)
        self._drivers["register" if self._has_register else "issue"].drive(rs_valid=self._operands, **values)

    def _drive_ready(self) -> None:
        if self.behaviour.in_order:
            oldest = self._unfinished[0] if self._unfinished else None
            if self._in_last_stage is None and oldest and oldest.committed < self.cycle and self._happens("takes"):
                self._in_last_stage = oldest
            self._takes = self._in_last_stage is not None
        else:
            self._takes = self._happens("takes")
        self._drivers["result"].drive(ready=int(self._takes))

    def respond(self) -> None:
        offload = self._offered
        valid = int(offload is not None and sample(self._ready["issue"]))
        self._drivers["commit"].drive(valid=valid, id=offload.id if offload else 0, kill=0)

    def sample(self) -> None:
        self._waited += 1
        if self._undecided or self._dropped or self._unfinished or self.loads:
            self._last_work = self.cycle
        self._check_result()
        self._check_answer()
        if not (self._program or self._offered or self._undecided or self._unfinished or self.loads):
            self._done.set()
            self._waited = 0
        assert self._waited < _PATIENCE, f"stuck: {self._board.unit} (seed {self._board.seed})"
        self.cycle += 1

    @staticmethod
    def _reads(offload: Offload) -> int:
        reads = offload.insn.reads if offload.insn else ()
        return sum(1 << place for place, name in enumerate(_OPERANDS) if name in reads)

    def _check_answer(self) -> None:
        offload, operands = self._offered, self._registers
        complete = operands is not None and not self._reads(operands) & ~self._operands
        if operands in self._lacking:
            self._board.equal(sample(self._ready["register"]), int(complete), f"ready for {self._text(operands)}")
            if complete:
                self._lacking.remove(operands)
        if offload is None:
            return
        ready = sample(self._ready["issue"])
        where = f"cycle {self.cycle}, {self._text(offload)}"
        if offload.insn is not None and operands is offload and not complete:
            assert not ready, f"{where}: accepted before its operands are valid"
        elif offload.insn is None or self.cycle > self._last_work + _LONGEST:
            assert ready, f"{where}: not answered at once"
        if not ready:
            return
        answer = {name: sample(handle) for name, handle in self._answer.items()}
        expected = dict.fromkeys(answer, 0)
        if offload.insn is not None:
            loads = offload.insn.op == "pa.step" and self.loads_by_core
            expected |= {"accept": 1, "writeback": int(offload.insn.writes_rd), "loadstore": int(loads)}
            expected |= {"register_read": self._reads(offload)} if self._has_register else {}
            if operands is offload and self._has_register:
                assert sample(self._ready["register"]), f"{where}: operands are not taken with the instruction"
            elif operands is not offload and self._reads(offload):
                self._lacking.append(offload)
        self._board.equal(answer, expected, f"{where}: answer")
        self._accept(offload)

    def _accept(self, offload: Offload) -> None:
        offload.issued, self._offered, self._waited, self._may_repeat_id = self.cycle, None, 0, False
        if self._kills:
            self._return([offload])
            self._lacking = [lacking for lacking in self._lacking if lacking is not offload]
        elif not self.behaviour.commits_at_issue:
            self._undecided.append(offload)
        elif offload.insn is not None:
            self._commit(offload)
            if self.behaviour.any_result and offload.insn.writes_rd:
                self._blocking = offload

    def _check_result(self) -> None:
        if not sample(self._result_valid):
            assert not self._shown, f"result {self._shown} withdrawn"
            return
        shown = {name: sample(handle) for name, handle in self._result.items()}
        assert self._unfinished, f"cycle {self.cycle}: result {shown} of no committed instruction"
        oldest = self._unfinished[0]
        where = f"cycle {self.cycle}, {self._text(oldest)}"
        assert oldest.committed < self.cycle, f"{where}: result in the cycle of the commit"
        assert self._shown in ({}, shown), f"{where}: result {self._shown} becomes {shown}"
        expected = {"id": oldest.id, "we": int(oldest.data is not None), "exc": int(oldest.exccode is not None)}
        if oldest.exccode is not None:
            expected["exccode"] = oldest.exccode
        if oldest.data is not None:
            expected |= {"data": oldest.data, "rd": oldest.word >> _RD_LSB & _RD_MASK}
        self._board.equal({name: shown[name] for name in expected}, expected, f"{where}: result")
        self._shown = {} if self._takes else shown
        if self._takes:
            assert self._blocking in (None, oldest), f"{where}: its result ends {self._text(self._blocking or oldest)}"
            oldest.finished, self._in_last_stage, self._blocking, self._waited = self.cycle, None, None, 0
            self._unfinished.popleft()

    def release(self) -> None:
        for name, port in (("issue", "valid"), ("commit", "valid"), ("result", "ready")):
            self._drivers[name].drive(**{port: 0})
