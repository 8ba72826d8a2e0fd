"""Bench of the hardware loops: the unit in a modelled pipeline, compared with a sequential machine."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise, product
from random import Random

from cocotb.triggers import FallingEdge, RisingEdge, Timer

from xpulpnn.isa.machine import WORD_MASK, XLEN
from xpulpnn_sim.benches import hwloop_model as loops
from xpulpnn_sim.benches.agents.base import SETTLE_NS, Dut, drive, pulse_reset, sample
from xpulpnn_sim.benches.agents.fixtures import unit_test
from xpulpnn_sim.benches.agents.scoreboard import Scoreboard
from xpulpnn_sim.benches.hwloop_model import LoopAction, LoopEffect, LoopMachine, LoopStep, RandomExecution
from xpulpnn_sim.benches.launcher_data import bench_data

STEPS = 340
_FAULTS = 200
_TOP = 0xFFFF_FFD0  # a base from which execution wraps around the end of the address space
NAMES = [f"{name}{loop}" for loop in range(loops.HARDWARE_LOOPS) for name in ("lpstart", "lpend", "lpcount")]
LATE = (LoopEffect.BRANCH, LoopEffect.CSR_READ, LoopEffect.CSR_WRITE)
SIDEWAYS = (LoopEffect.JUMP, LoopEffect.TRAP)
_CYCLE_LIMIT = 60  # average cycles per instruction above which the pipeline counts as stuck


@dataclass(frozen=True, slots=True)
class Speed:
    """Probability per cycle that IF has an instruction, that ID is done, and that EX is done."""

    fetch: float = 1.0
    decode: float = 1.0
    execute: float = 1.0


FULL_SPEED = Speed()
_RUNS = [(FULL_SPEED, 0x1000), (FULL_SPEED, _TOP), (Speed(0.7, 0.8, 0.6), 0x1000), (Speed(1.0, 1.0, 0.3), _TOP)]


@dataclass(frozen=True, slots=True)
class InId:
    pc: int
    size: int
    looped: int


class Pipeline:
    """IF, ID and EX around the unit, which hold addresses instead of instructions; the only writer of its inputs."""

    # `corrections` counts redirects of fetching by the unit

    def __init__(self, dut: Dut, size_at: Callable[[int], int], speed: Speed, rng: Random) -> None:
        self.dut, self.size_at, self.speed = dut, size_at, speed
        self.rng = rng
        self.board = Scoreboard()
        self.ops: dict[str, int] = bench_data()["ops"]
        self.corrections = 0
        self.cycles = 0

    def show_stages(self, if_pc: int, in_id: InId | None, in_ex: LoopStep | None, *, ex_leaves: bool) -> None:
        rng = self.rng
        shown = in_id or InId(rng.choice([if_pc, rng.getrandbits(31) << 1]), 2, rng.getrandbits(1))
        action = in_ex.action if in_ex is not None and ex_leaves else LoopAction(LoopEffect.PLAIN)
        writes = action.effect is LoopEffect.CSR_WRITE
        inputs = {
            "if_pc": if_pc,
            "id_valid": int(in_id is not None),
            "id_pc": shown.pc,
            "id_after": (shown.pc + shown.size) & WORD_MASK,
            "id_looped": shown.looped,
            "ex_leaves": int(ex_leaves),
            "ex_taken": int(action.taken),
            "we": 1 << loops.REGISTERS_PER_LOOP * action.loop + action.register if writes else 0,
            "wdata": action.values[action.register] if writes else rng.getrandbits(32),
        }
        drive(self.dut, inputs)
        self._show_leaving(None)

    def _show_leaving(self, step: LoopStep | None) -> None:
        dut, rng = self.dut, self.rng
        action = LoopAction(LoopEffect.PLAIN, op=rng.choice(list(self.ops))) if step is None else step.action
        sets_up = action.effect is LoopEffect.SETUP
        dut.id_leaves.value = dut.id_follows.value = int(step is not None and action.effect not in SIDEWAYS)
        dut.id_late.value = rng.getrandbits(1) if step is None else int(action.effect in LATE)
        dut.setup__valid.value = int(sets_up)
        dut.setup__op.value = self.ops[action.op] if sets_up else rng.choice(list(self.ops.values()))
        dut.setup__loop.value = action.loop
        for name, value in zip(("start", "end", "count"), action.values, strict=True):
            getattr(dut, f"setup__{name}").value = value if sets_up else rng.getrandbits(32)

    def registers(self) -> tuple[int, ...]:
        return tuple(sample(getattr(self.dut, name)) for name in NAMES)

    def check_fetching(self, if_pc: int, in_id: InId | None, where: str) -> None:
        """Check the loop jump in IF against the registers, after the count-down by the instruction in ID."""
        machine = LoopMachine(list(self.registers()))
        ending = None if in_id is None else machine.ending(in_id.pc)
        if ending is not None:
            machine.registers[loops.REGISTERS_PER_LOOP * ending + loops.COUNT] -= 1
        back = machine.ending(if_pc)
        self.board.equal(sample(self.dut.if_back), back is not None, f"if_back at {if_pc:#x} {where}")
        if back is not None:
            start = machine.registers[loops.REGISTERS_PER_LOOP * back + loops.START]
            self.board.equal(sample(self.dut.if_start), start, f"if_start at {if_pc:#x} {where}")

    def _check(self, if_pc: int, looped: int, leaving: LoopStep | None, in_ex: LoopStep | None, where: str) -> None:
        dut, board = self.dut, self.board
        flows = leaving is not None and leaving.action.effect not in SIDEWAYS
        if leaving is not None and flows:
            board.equal(hex(sample(dut.id_next)), hex(leaving.sequel), f"id_next {where}")
            # if the loop no longer jumps back, ID may hold the right address with the wrong mark
            stays = LoopMachine([*leaving.before]).ending(leaving.pc) is None
            wrong = looped if stays else int(if_pc != leaving.sequel)
            board.equal(sample(dut.wrong), wrong, f"wrong with if_pc {if_pc:#x} {where}")
        else:
            board.equal(sample(dut.wrong), 0, f"wrong without an instruction {where}")
        if in_ex is not None and in_ex.action.effect in (LoopEffect.CSR_READ, LoopEffect.CSR_WRITE):
            board.equal(self.registers(), in_ex.before, f"registers for a CSR access at {in_ex.pc:#x} {where}")

    async def run(self, steps: list[LoopStep], *, last_stays: bool = False) -> None:
        """Execute all steps; with ``last_stays`` the last step stays in EX and its predecessor in WB."""
        rng, speed, dut = self.rng, self.speed, self.dut
        if_pc, in_id, in_ex = steps[0].pc, None, None
        position = bubbles = 0
        for cycle in range(_CYCLE_LIMIT * len(steps)):
            if position == len(steps) and (last_stays or in_ex is None):
                self.cycles = cycle
                return
            ex_leaves = in_ex is not None and rng.random() < speed.execute
            self.show_stages(if_pc, in_id, in_ex, ex_leaves=ex_leaves)
            await Timer(SETTLE_NS, unit="ns")
            # instructions behind a taken branch or a CSR write do not leave ID
            blocked = in_ex is not None and (not ex_leaves or in_ex.action.blocks)
            leaving = None
            stays = blocked or sample(dut.hold) or position == len(steps) or rng.random() >= speed.decode
            if in_id is not None and not stays:
                leaving = steps[position]
                self.board.equal(hex(in_id.pc), hex(leaving.pc), f"pc of step {position}")
                self._show_leaving(leaving)
            await FallingEdge(dut.clk)
            where = f"in step {position}, cycle {cycle}"
            self.check_fetching(if_pc, in_id, where)
            self._check(if_pc, in_id.looped if in_id else 0, leaving, in_ex if ex_leaves else None, where)
            target = None
            if ex_leaves and in_ex is not None and in_ex.action.taken:
                target = in_ex.action.target
            elif leaving is not None and leaving.action.effect in SIDEWAYS:
                target = leaving.action.target
            elif sample(dut.wrong):
                self.corrections += 1
                target = sample(dut.id_next)
            if target is not None:
                if_pc, in_id = target, None
                bubbles = rng.randrange(3) if speed is not FULL_SPEED else 0
            elif (in_id is None or leaving is not None) and not bubbles and rng.random() < speed.fetch:
                in_id = InId(if_pc, self.size_at(if_pc), sample(dut.if_back))
                if_pc = sample(dut.if_start) if in_id.looped else (if_pc + in_id.size) & WORD_MASK
            else:
                in_id = None if leaving is not None else in_id
                bubbles = max(0, bubbles - 1)
            if ex_leaves or in_ex is None:
                in_ex = leaving if leaving is None or leaving.action.effect is not LoopEffect.TRAP else None
            position += leaving is not None
            await RisingEdge(dut.clk)
        raise AssertionError(f"stuck in step {position} (seed {self.board.seed})")

    async def fault(self, if_pc: int) -> None:
        """Signal an access fault in WB; EX and ID are empty in that cycle and the next two."""
        for fault in (*(0 for _ in range(self.rng.randrange(3))), 1, 0, 0):
            self.show_stages(if_pc, None, None, ex_leaves=False)
            self.dut.fault.value = fault
            await RisingEdge(self.dut.clk)
        self.dut.fault.value = 0
        await FallingEdge(self.dut.clk)


@unit_test((("speed", "base"), _RUNS))
async def executions_are_sequential(dut: Dut, rng: Random, speed: Speed, base: int) -> None:
    """Random set-ups, CSR accesses, branches, jumps and traps in loops and at their ends; again after a reset."""
    for _ in range(2):
        execution, machine = RandomExecution(base, rng), LoopMachine()
        pipeline = Pipeline(dut, execution.size_at, speed, rng)
        await pipeline.run(execution.steps(STEPS, machine))
        await FallingEdge(dut.clk)
        pipeline.board.equal(pipeline.registers(), tuple(machine.registers), "registers at the end")
        await pulse_reset(dut)
        pipeline.board.equal(pipeline.registers(), (0,) * len(NAMES), "registers after reset")


_GIVES_BACK_OFTEN = 10  # least number of faults that undo iterations


@unit_test()
async def faults_give_back_what_was_counted(dut: Dut, rng: Random) -> None:
    """An access fault restores the counts that its instruction and the next instruction have changed."""
    execution, machine = RandomExecution(0x1000, rng), LoopMachine()
    pipeline = Pipeline(dut, execution.size_at, FULL_SPEED, rng)
    counted: set[int] = set()
    times = 0
    for number in range(_FAULTS):
        pipeline.speed = rng.choice((FULL_SPEED, Speed(0.7, 0.8, 0.6)))
        steps = execution.steps(rng.randint(10, 30), machine)
        # an access, followed by an instruction without effects before EX
        places = [
            place
            for place, (access, behind) in enumerate(pairwise(steps))
            if access.action.effect is LoopEffect.PLAIN
            and behind.action.effect not in (LoopEffect.SETUP, LoopEffect.TRAP)
        ]
        if not places:
            machine.registers = list(steps[0].before)
            continue
        # prefer places where loops jump back
        place = max(
            places, key=lambda at: sum(step.sequel != (step.pc + step.size) & WORD_MASK for step in steps[at : at + 2])
        )
        steps = steps[: place + 2]
        await pipeline.run(steps, last_stays=True)
        await Timer(SETTLE_NS, unit="ns")
        before = steps[-2].before
        taken = sum(was - now for was, now in zip(before, pipeline.registers(), strict=True) if was != now)
        counted.add(taken)
        times += taken > 0
        await pipeline.fault(steps[-1].pc)
        pipeline.board.equal(pipeline.registers(), before, f"registers after fault {number}")
        machine.registers = list(before)
    assert counted == {0, 1, 2}, f"iterations taken back must have been 0 to 2, not {sorted(counted)}"
    assert times >= _GIVES_BACK_OFTEN, f"{times} faults found iterations"


@unit_test()
async def every_bit_of_a_count_counts(dut: Dut, rng: Random) -> None:
    """With each power of two except 1 as count, a loop jumps back and counts down by one."""
    # most instructions count when they leave ID, which a fault undoes; others count when they leave EX
    pipeline = Pipeline(dut, lambda _: 4, FULL_SPEED, rng)
    for loop, bit in product(range(loops.HARDWARE_LOOPS), range(XLEN)):
        first, end, after = (rng.getrandbits(XLEN - 2) << 2 for _ in range(3))
        in_id, where = InId(end, (after - end) & WORD_MASK, 0), f"loop {loop}, bit {bit}"
        pipeline.show_stages(end, in_id, None, ex_leaves=False)
        for register, value in ((loops.START, first), (loops.END, end), (loops.COUNT, 1 << bit)):
            drive(dut, {"we": 1 << loops.REGISTERS_PER_LOOP * loop + register, "wdata": value})
            await RisingEdge(dut.clk)
        dut.we.value = 0
        await FallingEdge(dut.clk)
        pipeline.board.equal(hex(sample(dut.id_next)), hex(first if bit else after), f"id_next, {where}")
        pipeline.check_fetching(end, in_id, where)
        for flipped in (0, 1 << bit) if bit else ():
            await RisingEdge(dut.clk)
            drive(dut, {"if_pc": first ^ flipped, "id_follows": 1})
            await FallingEdge(dut.clk)
            pipeline.board.equal(sample(dut.wrong), int(flipped > 0), f"wrong, {where}")
        before = list(pipeline.registers())
        counted = before.copy()
        counted[loops.REGISTERS_PER_LOOP * loop + loops.COUNT] -= bit > 0
        for late in (0, 1):
            pipeline.show_stages(end, in_id, None, ex_leaves=False)
            drive(dut, {"id_leaves": 1, "id_follows": 1, "id_late": late})
            await RisingEdge(dut.clk)
            pipeline.show_stages(end, None, None, ex_leaves=bool(late))
            for _ in range(late):
                await RisingEdge(dut.clk)
                pipeline.show_stages(end, None, None, ex_leaves=False)
            await FallingEdge(dut.clk)
            pipeline.board.equal(list(pipeline.registers()), counted, f"registers, {where}, late {late}")
            if not late:
                await pipeline.fault(end)
                pipeline.board.equal(list(pipeline.registers()), before, f"registers after a fault, {where}")
        await RisingEdge(dut.clk)


def nested(body: int, machine: LoopMachine) -> tuple[list[LoopStep], int]:
    inner_setup, inner_end, outer_end = 0x104, 0x104 + 4 * body, 0x10C + 4 * body
    program = {
        0x100: LoopAction(LoopEffect.SETUP, op="SETUPI", loop=1, values=(0x104, outer_end, 5)),
        inner_setup: LoopAction(LoopEffect.SETUP, op="SETUPI", loop=0, values=(0x108, inner_end, 4)),
    }
    steps: list[LoopStep] = []
    pc = 0x100
    while pc <= outer_end:
        step, pc = machine.execute(pc, 4, program.get(pc, LoopAction(LoopEffect.PLAIN)))
        steps.append(step)
    return steps, 1 + sum(step.pc == inner_setup for step in steps)


@unit_test(body=[1, 2, 3, 7])
async def long_bodies_flow_without_a_bubble(dut: Dut, rng: Random, body: int) -> None:
    """Fetching in nested loops is never corrected if the body has 3 or more instructions."""
    machine = LoopMachine()
    steps, setups = nested(body, machine)
    pipeline = Pipeline(dut, lambda _: 4, FULL_SPEED, rng)
    await pipeline.run(steps)
    pipeline.board.equal(pipeline.registers(), tuple(machine.registers), "registers at the end")
    allowed = 0 if body >= 3 else setups
    assert pipeline.corrections <= allowed, f"{pipeline.corrections} corrections of a body of {body}"
