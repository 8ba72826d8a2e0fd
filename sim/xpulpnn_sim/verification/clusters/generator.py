"""Random programs for several harts, with phases in which some harts wait for others."""

from collections.abc import Callable, Sequence
from random import Random

from xpulpnn.config import ClusterConfig
from xpulpnn.errors import InputError, require
from xpulpnn.isa import cluster as isa
from xpulpnn.isa.cluster import Barrier, EventLine, EventRegister
from xpulpnn.isa.machine import WORD_BYTES
from xpulpnn_sim.reference.bare.draw import Draw
from xpulpnn_sim.reference.bare.program import Handlers, ProgramBlock, block_of
from xpulpnn_sim.verification.clusters import program
from xpulpnn_sim.verification.clusters.program import ClusterProgram, Phase, SharedBlocks, store_lines
from xpulpnn_sim.verification.random.control import Context, ControlBlocks
from xpulpnn_sim.verification.random.generator import initial_registers, weights_of
from xpulpnn_sim.verification.random.system import SystemBlocks

_UNIT = f"li t1, 0x{isa.PRIVATE_EVENT_UNIT:x}"
_MOST_WORDS = 4
"""Maximum of words that a phase pushes into the dispatch queue, which must have room for the words of two phases."""

Parts = list[list[ProgramBlock]]  # what each hart has to do; a meeting adds to them


class Meetings:
    def __init__(self, rng: Random, config: ClusterConfig, signals: Sequence[int]) -> None:
        self._rng, self._config, self._signals = rng, config, signals
        self.kinds = {"nothing": lambda parts: None, "event": self._event, "tasks": self._tasks, "timer": self._timer}
        if config.barriers > 1:
            self.kinds["barrier"] = self._barrier

    def _some_harts(self) -> list[int]:
        rng, cores = self._rng, self._config.cores
        return sorted(rng.sample(range(cores), rng.randrange(1, cores + 1)))

    def _waiting(self, lines: Sequence[int]) -> tuple[str, ...]:
        """Return code that waits for one of the event lines ``lines`` and clears the event."""
        mask = sum(1 << line for line in lines)
        head = store_lines(isa.PRIVATE_EVENT_UNIT, (EventRegister.MASK, mask))
        if self._rng.randrange(2):
            return (*head, f"p.elw s2, 0x{EventRegister.WAIT_CLEAR:x}(t1)")
        return (*head, f"p.elw s2, 0x{EventRegister.WAIT:x}(t1)", f"sw s0, 0x{EventRegister.BUFFER_CLEAR:x}(t1)")

    def _insert(self, part: list[ProgramBlock], block: ProgramBlock) -> None:
        part.insert(self._rng.randrange(len(part) + 1), block)

    def _lead(self, parts: Parts, harts: Sequence[int], wait: ProgramBlock, leader: int, block: ProgramBlock) -> None:
        """Add ``wait`` to the code of ``harts``, and ``block``, which ends the wait, to that of ``leader``, ahead of
        the leader's own wait."""
        for hart in harts:
            self._insert(parts[hart], wait)
        own = parts[leader]
        limit = own.index(wait) if leader in harts else len(own)
        own.insert(self._rng.randrange(limit + 1), block)

    def _barrier(self, parts: Parts) -> None:
        """Make some harts meet at a barrier that one of them sets up; each hart waits in one of four ways."""
        rng = self._rng
        number, harts = rng.randrange(1, self._config.barriers), self._some_harts()
        mask = sum(1 << hart for hart in harts)
        at = EventRegister.BARRIER + isa.BARRIER_BYTES * number
        leader = rng.choice(harts)
        setting = ProgramBlock("sets barrier", tuple(program.set_barrier_lines(number, mask)))
        for hart, part in enumerate(parts):
            if hart in harts:
                head = store_lines(isa.PRIVATE_EVENT_UNIT, (EventRegister.MASK, 1 << EventLine.BARRIER))
                wait = f"p.elw s2, 0x{EventRegister.WAIT_CLEAR:x}(t1)"
                ways = (
                    f"p.elw s2, 0x{at + Barrier.TRIGGER_WAIT_CLEAR:x}(t1)",
                    f"p.elw s2, 0x{at + Barrier.TRIGGER_WAIT:x}(t1); sw s0, 0x{EventRegister.BUFFER_CLEAR:x}(t1)",
                    f"lw s2, 0x{at + Barrier.TRIGGER_SELF:x}(t1); {wait}",
                    f"li s3, 0x{1 << hart:x}; sw s3, 0x{at + Barrier.TRIGGER:x}(t1); {wait}",
                )
                self._insert(part, block_of("barrier", ";".join([*head, rng.choice(ways)])))
            # nobody is at the barrier before all know of it
            part.insert(0, ProgramBlock("all meet", tuple(program.barrier_lines(0))))
            if hart == leader:
                part.insert(0, setting)

    def _event(self, parts: Parts) -> None:
        """Make one hart send a software event, through its private or the shared registers; some harts wait for it."""
        rng = self._rng
        event, harts = rng.choice(self._signals), self._some_harts()
        mask = 0 if len(harts) == len(parts) and rng.randrange(2) else sum(1 << hart for hart in harts)
        sender = rng.randrange(len(parts))
        own = isa.PRIVATE_EVENT_UNIT, EventRegister.SW_TRIGGER
        place, at = rng.choice((own, (isa.EVENT_UNIT, isa.SHARED_SW_TRIGGERS)))
        lines = store_lines(place, (at + WORD_BYTES * event, mask))
        waiting = ProgramBlock("waits for event", self._waiting([event]))
        self._lead(parts, harts, waiting, sender, ProgramBlock("sends event", tuple(lines)))

    def _tasks(self, parts: Parts) -> None:
        """Make one hart push words into the dispatch queue, and a team of harts pop them."""
        rng = self._rng
        harts, master = self._some_harts(), rng.randrange(len(parts))
        number = rng.randrange(1, min(_MOST_WORDS, self._config.dispatch_depth) + 1)
        words = [rng.getrandbits(32) for _ in range(number)]
        team = sum(1 << hart for hart in harts)
        pushes = ((EventRegister.DISPATCH_FIFO, word) for word in words)
        lines = store_lines(isa.PRIVATE_EVENT_UNIT, (EventRegister.DISPATCH_TEAM, team), *pushes)
        taking = (_UNIT, *(f"p.elw s{rng.randrange(2, 8)}, 0x{EventRegister.DISPATCH_FIFO:x}(t1)" for _ in words))
        task = ProgramBlock("takes tasks", taking)
        self._lead(parts, harts, task, master, ProgramBlock("gives tasks", tuple(lines)))

    def _timer(self, parts: Parts) -> None:
        rng = self._rng
        high = rng.randrange(2)
        harts, starter = self._some_harts(), rng.randrange(len(parts))
        config, compare = (
            (isa.Timer.CONFIG_HIGH, isa.Timer.COMPARE_HIGH) if high else (isa.Timer.CONFIG_LOW, isa.Timer.COMPARE_LOW)
        )
        settings = isa.TimerConfig.ENABLE | isa.TimerConfig.RESET | isa.TimerConfig.EVENT | isa.TimerConfig.ONE_SHOT
        period = rng.randrange(1, 400)
        if rng.randrange(3) == 0:
            settings |= isa.TimerConfig.PRESCALER | rng.randrange(5) << 8
        lines = store_lines(isa.TIMER, (compare, period), (config, settings))
        line = EventLine.TIMER_HIGH if high else EventLine.TIMER_LOW
        waiting = ProgramBlock("waits for timer", self._waiting([line]))
        self._lead(parts, harts, waiting, starter, ProgramBlock("starts timer", tuple(lines)))


BUDGET = 16_000  # instructions that a program of eight harts executes, about

_FUNCTIONS = 2
_FUNCTION = 60  # instructions of a function, about
_MOST_PHASES = 12
_LONGEST = 40  # blocks of a hart in a phase


def require_programmable(config: ClusterConfig) -> None:
    """Raise :class:`InputError` unless random programs can run on the cluster."""
    require(config.core.xpulpv2, "xpulpv2 must be true for programs of several harts, not false: they wait with p.elw")
    if config.tcdm_bytes < program.LEAST_TCDM:
        raise InputError(f"tcdm_bytes must be at least {program.LEAST_TCDM}, not {config.tcdm_bytes}")


class _Writer:
    def __init__(self, config: ClusterConfig, rng: Random) -> None:
        self._config, self._rng = config, rng
        self.draw = Draw(rng, config.core)
        kinds = weights_of(config.core, "cluster")
        weights = {kind: weight * rng.choice((0.5, 1, 1, 3)) for kind, weight in kinds.items()}
        system = SystemBlocks(self.draw, unfetched=program.L2_FAILING, failing=program.L2_FAILING)
        self._control = ControlBlocks(self.draw, weights, system)
        self._context = Context(loops=frozenset({0, 1}))
        self._shared = SharedBlocks(self.draw, config)
        self._meetings = Meetings(rng, config, self._shared.signals)
        count = rng.randint(0, _FUNCTIONS)
        self.functions = tuple(self._control.function(self._context.loops, _FUNCTION) for _ in range(count))

    def phase(self, budget: int) -> Phase:
        """Return a phase of at most about ``budget`` instructions in each hart."""
        rng = self._rng
        sizes = (0, budget // 2, *[budget] * 4)
        parts = [self._part(hart, rng.choice(sizes)) for hart in range(self._config.cores)]
        kind = rng.choice([*self._meetings.kinds])
        self._meetings.kinds[kind](parts)
        return Phase(kind, tuple(map(tuple, parts)))

    def _part(self, hart: int, budget: int) -> list[ProgramBlock]:
        shared = self._shared
        kinds: dict[Callable[[], ProgramBlock], float] = {
            lambda: shared.window(hart): 4,
            shared.lock: 1.5,
            shared.mutex: 1.5,
            shared.noise: 1.5,
            shared.shared_view: 0.5,
            shared.registers: 1,
        }
        if shared.others:
            kinds[shared.own_event] = 0.5
        # each hart has code of its own, but for functions
        flush = (f"li t1, 0x{isa.ICACHE_CONTROL + isa.Icache.FLUSH:x}", "sw t1, 0(t1)")
        kinds[lambda: self._control.system.self_modify(flush if self._config.icache_private else ())] = 0.8
        if self._config.dma:
            kinds[self._transfer] = 2
        control, part = self._control, list[ProgramBlock]()
        control.left = budget
        while control.left > 0 and len(part) < _LONGEST:
            if self.draw.chance(0.6):
                part.append(control.block(self._context))
            else:
                part.append(self._rng.choices([*kinds], [*kinds.values()])[0]())
                control.left -= 10
        return part

    def _transfer(self) -> ProgramBlock:
        """Return a DMA transfer with other blocks, sometimes another transfer, between its start and its end."""
        meanwhile = self._control.blocks(self._context, self._rng.randrange(3))
        # identifiers of two transfers of each core: fewer might all be held by cores that wait for a second one
        if 2 * self._config.cores <= self._config.dma_transfers and self._rng.randrange(4) == 0:
            meanwhile = (*meanwhile, self._shared.transfer(slot=program.SLOT + WORD_BYTES))
        return self._shared.transfer(meanwhile)


def generate_cluster(config: ClusterConfig, seed: int, *, budget: int = BUDGET) -> ClusterProgram:
    """Return the random program number ``seed``."""
    require_programmable(config)
    rng = Random(f"cluster program {seed}")
    writer = _Writer(config, rng)
    count = rng.randrange(2, _MOST_PHASES + 1)
    phases = [writer.phase(max(1, 2 * budget // (count * config.cores))) for _ in range(count)]
    first = Phase("registers", tuple((initial_registers(writer.draw),) for _ in range(config.cores)))
    return ClusterProgram(
        harts=config.cores,
        phases=(first, *phases),
        functions=writer.functions,
        handlers=Handlers(watches_loops=writer.draw.config.xpulpv2),
        data_seed=seed,
        l2_tohost=bool(rng.randrange(2)),
        name=f"cluster program {seed}",
    )
