"""Programs that aim at crosses nobody has reached yet, and the order in which they are made.

Programs come in batches. A batch depends on what the batches before have reached and on nothing else, so that the same
options give the same programs however many processes run them.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from functools import cache
from random import Random
from typing import Any

from xpulpnn.isa.retirement import WaitCause
from xpulpnn_sim.verification.coverage.aims import SKIPPING, Aims
from xpulpnn_sim.verification.coverage.collector import Collector
from xpulpnn_sim.verification.coverage.crosses import SLOW, Crosses, crosses_of
from xpulpnn_sim.verification.coverage.kinds import Producer
from xpulpnn_sim.verification.coverage.placing import Placer
from xpulpnn_sim.verification.random.draw import Draw
from xpulpnn_sim.verification.random.generator import framed, initial_registers
from xpulpnn_sim.verification.random.handlers import Handlers, random_handlers
from xpulpnn_sim.verification.random.labels import Labels
from xpulpnn_sim.verification.random.program import Program
from xpulpnn_sim.verification.random.shrink import Case
from xpulpnn_sim.verification.random.spread import Runner
from xpulpnn_sim.verification.random.stress import random_stress
from xpulpnn_sim.verification.random.trials import Plan

BATCH = 16  # programs of a batch
_FEW = 50  # blocks of a program that aims at fewer crosses, each several times
_UNAIMED = 4  # of them without an aim
AIMS = 1500  # crosses that a program aims at, at most
_RATE = 0.05  # Interrupts per cycle of programs that aim at interrupts, with an ideal memory

_MAX_CYCLES = 400_000  # a program that runs longer has failed; it has no long loops

_SLOTS = ("mret", "mret", "mret", "mret", "j quick", "j skip")
_INTERRUPTS = frozenset({"interrupt", "across an interrupt", "interrupt in a loop"})


class Need(Enum):
    """Machines on which crosses are likely."""

    ANY = "any"
    QUICK = "quick"
    SLOW_DATA = "slow data"
    SLOW_FETCH = "slow fetch"
    INTERRUPTS = "interrupts"


_IDEAL = {"grant_stalls": 0.0, "response_latency": 1, "fetch_grant_stalls": 0.0, "fetch_latency": 1}
_MACHINES: Mapping[Need, dict[str, Any]] = {
    Need.ANY: {},
    Need.QUICK: _IDEAL,
    Need.SLOW_DATA: _IDEAL | {"grant_stalls": 0.1, "response_latency": 8},
    Need.SLOW_FETCH: _IDEAL | {"fetch_grant_stalls": 0.3, "fetch_latency": 9},
    Need.INTERRUPTS: _IDEAL | {"irq_rate": _RATE},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class AimedPlan(Plan):
    """A plan of programs that aim at crosses."""

    aims: tuple[int, ...]  # numbers of the crosses

    def case(self, seed: int) -> Case:
        """The program ``seed`` and its machine."""
        crosses = crosses_of(self.config)
        needs = need(crosses, self.aims[0])
        stress = replace(random_stress(seed, **self.chosen), max_cycles=_MAX_CYCLES, irq_rate=0.0)
        stress = replace(stress, **_MACHINES[needs])
        given = {name: value for name, value in self.chosen.items() if value is not None}
        stress = replace(stress, **given)
        return Case(self._program(crosses, seed, interrupts=stress.irq_rate > 0), stress)

    def _program(self, crosses: Crosses, seed: int, *, interrupts: bool) -> Program:
        draw, labels = Draw(Random(f"aimed program {seed}"), self.config), Labels()
        registers = initial_registers(draw)
        aims = Aims(crosses, Placer(draw, labels, interrupts=interrupts))
        blocks = [block for number in self.aims if (block := aims.block(number)) is not None]
        handlers = Handlers(watches_loops=draw.has_xpulp)
        if interrupts:
            # most return at once, so that programs get on
            slots = tuple(draw.rng.choice(_SLOTS) for _ in handlers.slots)
            handlers = replace(random_handlers(draw), slots=slots, exception=SKIPPING + handlers.exception.lstrip())
        main = (registers, *blocks)
        return framed(Program(main, (), handlers, seed, f"aimed program {seed}"), interrupts=interrupts)

    def command(self, seed: int) -> str:
        """The command that runs the program ``seed`` again."""
        # slots and zero-argument super do not go together
        return f"{Plan.command(self, seed)} --coverage --aim {','.join(map(str, self.aims))}"


@cache
def need(crosses: Crosses, aim: int) -> Need:
    """The machine on which a cross is most likely."""
    family, place = crosses.place(aim)
    values = [axis[at] for axis, at in zip(family.values, family.at(place), strict=True)]
    ops = {getattr(one, "op", "") for one in values}
    returns = "mret" in ops and (WaitCause.TRAP in values or "behind what fails" in values)
    if family.name in _INTERRUPTS or WaitCause.SLEEP in values or "wfi" in ops or returns:
        return Need.INTERRUPTS
    if family.name == "wait" and values[1] in (WaitCause.GRANT, WaitCause.RESPONSE):
        return Need.SLOW_DATA
    if family.name == "wait" and values[1] is WaitCause.FETCH:
        return Need.SLOW_FETCH
    if family.name == "timing":
        kind, producer, _, when = values
        if when == "after a wait":
            return Need.SLOW_FETCH
        return Need.SLOW_DATA if kind in SLOW or producer is Producer.LINK else Need.QUICK
    return Need.ANY


def steered(runner: Runner, plan: Plan, first: int, collector: Collector) -> Iterator[Any]:
    """Results of programs from the number ``first`` on, without end; aims are the holes of ``collector``."""
    seed = first
    while True:
        plans = batch(plan, collector, seed)
        yield from runner.each(enumerate(plans, seed))
        seed += len(plans)


def batch(plan: Plan, collector: Collector, seed: int) -> list[Plan]:
    """Plans of the next programs: holes drawn at random, those that need interrupts in programs of their own."""
    rng = Random(f"batch {seed}")
    crosses = collector.crosses
    holes = collector.holes.tolist()
    rng.shuffle(holes)
    groups: dict[Need, list[int]] = {}
    for hole in holes:
        groups.setdefault(need(crosses, hole), []).append(hole)
    plans = [plan] * (_UNAIMED if collector.counts.any() else BATCH // 2)
    shares = dict.fromkeys(groups, 0)
    while groups and len(plans) + sum(shares.values()) < BATCH:
        # one each, then those with the most left
        shares[max(groups, key=lambda kind: (shares[kind] == 0, len(groups[kind]) / (shares[kind] + 1)))] += 1
    for kind, share in shares.items():
        group = groups[kind]
        for number in range(share):
            aims = group[AIMS * number : AIMS * (number + 1)] or rng.sample(group, min(len(group), AIMS))
            # where few are left, several programs aim at each, several times
            plans.append(aimed(plan, tuple(aims * max(1, _FEW // len(aims)))))
    return plans


def aimed(plan: Plan, aims: tuple[int, ...]) -> AimedPlan:
    """The plan with aims."""
    fields: dict[str, Any] = {"config": plan.config, "label": plan.label, **plan.chosen}
    return AimedPlan(**fields, aims=aims)
