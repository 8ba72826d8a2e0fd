"""Random programs for several harts: a seed decides everything."""

from collections.abc import Callable, Mapping
from random import Random

from xpulpnn.config import ClusterConfig
from xpulpnn.errors import InputError
from xpulpnn_sim.verification.clusters.layout import LEAST_TCDM
from xpulpnn_sim.verification.clusters.meetings import Meetings
from xpulpnn_sim.verification.clusters.program import ClusterProgram, Phase
from xpulpnn_sim.verification.clusters.shared_blocks import SharedBlocks
from xpulpnn_sim.verification.clusters.transfers import Transfers
from xpulpnn_sim.verification.random.blocks import Block
from xpulpnn_sim.verification.random.control import Context, Control
from xpulpnn_sim.verification.random.draw import Draw
from xpulpnn_sim.verification.random.generator import initial_registers
from xpulpnn_sim.verification.random.handlers import Handlers
from xpulpnn_sim.verification.random.labels import Labels
from xpulpnn_sim.verification.random.system import Features

BUDGET = 16_000  # instructions that a program of eight harts executes, about

_ALONE: Mapping[str, float] = {
    "arithmetic": 3,
    "memory": 10,
    "Mac&Load": 4,
    "mixed": 6,
    "csr": 1,
    "trap": 0.6,
    "fence": 0.3,
    "mret": 0.2,
    "stack": 0.3,
    "branch": 2,
    "exit": 0.4,
    "jump": 0.8,
    "subroutine": 0.5,
    "call": 0.6,
    "counted": 0.8,
    "loop": 2.5,
}
"""Frequency of each kind of block of programs for one hart."""

_REQUANTISING: Mapping[str, float] = {"requantise": 5}  # the same of those only for cores with pv.rq*

_ALONE_CHANCE = 0.6
_FUNCTIONS = 2
_FUNCTION = 60  # instructions of a function, about
_MOST_PHASES = 12
_LONGEST = 40  # blocks of a hart in a phase
_DISTINCT_TRANSFERS = 8
"""Harts up to which each may have two transfers under way: more identifiers than there are would be waited for."""


def require(config: ClusterConfig) -> None:
    """Raise :class:`InputError` unless programs can run on a cluster."""
    if not config.core.xpulpv2:
        raise InputError("xpulpv2 must be true for programs of several harts, not false: they wait with p.elw")
    if config.tcdm_bytes < LEAST_TCDM:
        raise InputError(f"tcdm_bytes must be at least {LEAST_TCDM}, not {config.tcdm_bytes}")


class _Writer:
    """Writes the parts of a program."""

    def __init__(self, config: ClusterConfig, rng: Random) -> None:
        self._config, self._rng = config, rng
        self._draw, labels = Draw(rng, config.core), Labels()
        features = Features(interrupts=False, hwloops=config.core.xpulpv2, performance=config.core.performance_counters)
        kinds = {**_ALONE, **(_REQUANTISING if config.core.requantise else {})}
        weights = {kind: weight * rng.choice((0.5, 1, 1, 3)) for kind, weight in kinds.items()}
        self._control = Control(self._draw, labels, features, weights, 0)
        self._context = Context(loops=frozenset({0, 1}))
        self._shared = SharedBlocks(rng, labels, config)
        self._transfers = Transfers(rng, labels)
        self._meetings = Meetings(rng, config, self._shared.signals)
        self.functions = tuple(
            self._control.function(self._context.loops, _FUNCTION) for _ in range(rng.randrange(_FUNCTIONS + 1))
        )

    def registers(self) -> Block:
        """Values for all registers of the random instructions."""
        return initial_registers(self._draw)

    @property
    def handlers(self) -> Handlers:
        """Exceptions are skipped."""
        return Handlers(watches_loops=self._draw.has_xpulp)

    def phase(self, budget: int) -> Phase:
        """A phase in which each hart executes about ``budget`` instructions at most."""
        rng = self._rng
        parts = [
            self._part(hart, rng.choice((0, budget // 2, budget, budget, budget, budget)))
            for hart in range(self._config.cores)
        ]
        kind = rng.choice([*self._meetings.kinds])
        self._meetings.kinds[kind](parts)
        return Phase(kind, tuple(map(tuple, parts)))

    def _part(self, hart: int, budget: int) -> list[Block]:
        shared = self._shared
        kinds: dict[Callable[[], Block], float] = {
            lambda: shared.window(hart): 4,
            shared.lock: 1.5,
            shared.mutex: 1.5,
            shared.noise: 1.5,
            shared.shared_view: 0.5,
            shared.registers: 1,
        }
        if shared.has_own_events:
            kinds[shared.own_event] = 0.5
        if self._config.dma:
            kinds[self._transfer] = 2
        control, part = self._control, list[Block]()
        control.left = budget
        while control.left > 0 and len(part) < _LONGEST:
            if self._draw.chance(_ALONE_CHANCE):
                part.append(control.block(self._context))
            else:
                block = self._rng.choices([*kinds], [*kinds.values()])[0]()
                part.append(block)
                control.left -= 10
        return part

    def _transfer(self) -> Block:
        """A transfer with other work meanwhile, which may be another one."""
        rng = self._rng
        meanwhile = self._control.blocks(self._context, rng.randrange(3))
        if self._config.cores <= _DISTINCT_TRANSFERS and rng.randrange(4) == 0:
            meanwhile = (*meanwhile, self._shared.window(0))
        return self._transfers.block(meanwhile)


def generate(config: ClusterConfig, seed: int, *, budget: int = BUDGET) -> ClusterProgram:
    """The random program number ``seed``.

    Raises :class:`InputError` if the cluster is not one that programs can run on.
    """
    require(config)
    rng = Random(f"cluster program {seed}")
    writer = _Writer(config, rng)
    count = rng.randrange(2, _MOST_PHASES + 1)
    phases = [writer.phase(max(1, 2 * budget // (count * config.cores))) for _ in range(count)]
    first = Phase("registers", tuple((writer.registers(),) for _ in range(config.cores)))
    return ClusterProgram(
        harts=config.cores,
        phases=(first, *phases),
        functions=writer.functions,
        handlers=writer.handlers,
        data_seed=seed,
        l2_tohost=bool(rng.randrange(2)),
        name=f"cluster program {seed}",
    )
