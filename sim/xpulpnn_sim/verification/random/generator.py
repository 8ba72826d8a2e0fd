"""Constrained-random programs, determined by a seed."""

from dataclasses import replace
from random import Random

from xpulpnn.config import CoreConfig
from xpulpnn.isa.machine import WORD_BYTES
from xpulpnn.xif.config import XifHost
from xpulpnn_sim.reference.bare.draw import Draw, Group
from xpulpnn_sim.reference.bare.layout import POOL, RARE, SHIFTS, SIGNATURE
from xpulpnn_sim.reference.bare.program import (
    Handlers,
    ProgramBlock,
    RandomProgram,
    count_statements,
    random_handlers,
    single_lines,
)
from xpulpnn_sim.reference.stimuli import random_word
from xpulpnn_sim.verification.random.control import Context, ControlBlocks
from xpulpnn_sim.verification.random.coprocessor import keeping_state, state_reads
from xpulpnn_sim.verification.random.memory_run import MemoryRun, aimed_lines, shift_register
from xpulpnn_sim.verification.random.system import SystemBlocks
from xpulpnn_sw.assembly.disasm import ABI_NAMES

_WEIGHTS = """
kind        base  memory  Mac&Load  control  loops  system  arithmetic  cluster
arithmetic  6     3       .         .        .      .       30          3
corners     1     .       .         .        .      .       4           0.3
memory      4     14      .         .        .      .       .           10
Mac&Load    3     .       16        .        .      .       .           4
mixed       3     10      8         .        .      .       .           6
csr         3     .       .         .        .      8       .           1
trap        1.5   .       .         .        .      6       .           0.6
unfetched   0.5   .       .         .        .      2       .           0.2
failing     1.5   .       .         .        .      5       .           0.6
wfi         0.4   .       .         .        .      2       .           .
fence       0.4   .       .         .        .      2       .           0.3
modify      0.4   .       .         .        .      2       .           .
mtvec       0.3   .       .         .        .      1       .           .
mret        0.4   .       .         .        .      2       .           0.2
interrupts  0.6   .       .         .        .      2       .           .
stack       0.3   .       .         .        .      .       .           0.3
branch      3     .       .         10       .      .       .           2
exit        0.8   .       .         3        2      .       .           0.4
jump        1.2   .       .         6        .      .       .           0.8
subroutine  0.8   .       .         4        .      .       .           0.5
call        0.8   .       .         4        .      .       .           0.6
counted     0.6   .       .         2        1.5    .       .           0.8
loop        2     .       .         .        12     .       .           2.5
quantise    4     .       .         .        .      .       .           .
requantise  6     .       .         .        .      .       .           5
coprocessor 12    .       .         .        .      .       20          .
"""
"""Frequencies of the kinds of blocks: for a core, modified by the program's style, and for the harts of a cluster."""


def _columns() -> dict[str, dict[str, float]]:
    head, *rows = (line.split() for line in _WEIGHTS.strip().splitlines())
    return {name: {row[0]: float(row[at]) for row in rows if row[at] != "."} for at, name in enumerate(head[1:], 1)}


_COLUMNS = _columns()
STYLES = ("balanced", *list(_COLUMNS)[1:-1])


def weights_of(config: CoreConfig, style: str, *, on_host: bool = False) -> dict[str, float]:
    """Return the frequency of each kind of block that the core can execute, for a style or for a cluster."""
    weights = _COLUMNS[style] if style == "cluster" else {**_COLUMNS["base"], **_COLUMNS.get(style, {})}
    absent = {"quantise": not config.qnt, "requantise": not config.requantise}
    absent["coprocessor"] = not isinstance(config, XifHost) or not config.xif.accumulators
    absent |= dict.fromkeys(_OUR_TRAPS, on_host)
    return {kind: weight for kind, weight in weights.items() if not absent.get(kind)}


_OUR_TRAPS = ("unfetched", "failing", "mtvec")  # access faults and vector tables, which other cores have otherwise
BUDGET = 4000  # instructions that a program executes, about
_LONGEST = 900  # Statements after which no block is added
_COUNTED = 0.9  # how often a program begins with performance counters that count
_KEPT = 0.5  # how often interrupt handlers save and restore the state of the coprocessor
_FUNCTIONS = 3
_FUNCTION_SCALE = 4  # calls that are assumed of a function while it is written


def initial_registers(draw: Draw) -> ProgramBlock:
    words = {register: random_word(draw.rng) for register in (*POOL, *RARE)}
    if draw.groups[Group.REQUANTISE]:
        exact = draw.config.requantise_exact
        words |= {register: shift_register(draw.rng, width, exact=exact) for width, register in SHIFTS.items()}
    lines = (f"li {ABI_NAMES[register]}, 0x{word:x}" for register, word in words.items())
    return ProgramBlock("registers", (), single_lines("register", lines))


def generate(
    config: CoreConfig, seed: int, *, interrupts: bool = False, budget: int = BUDGET, on_host: bool = False
) -> RandomProgram:
    """Draw a program for a core, or, with ``on_host``, for a core of somebody else with the same instructions."""
    rng = Random(f"program {seed}")
    draw, style = Draw(rng, config), rng.choice(STYLES)
    system = SystemBlocks(draw, interrupts=interrupts, on_host=on_host)
    control = ControlBlocks(draw, weights_of(config, style, on_host=on_host), system)
    loops = frozenset({0, 1}) if config.xpulpv2 else frozenset[int]()
    functions = tuple(control.function(loops, BUDGET // _FUNCTION_SCALE**2) for _ in range(rng.randint(0, _FUNCTIONS)))
    main: list[ProgramBlock] = [initial_registers(draw)]
    if config.mac_load:
        main.append(MemoryRun(draw, "Mac&Load").block(8))
    if config.performance_counters and draw.chance(_COUNTED):
        main.append(control.system.count())
    if config.requantise:
        main.append(ProgramBlock("parameters", aimed_lines(draw)))
    control.left = budget
    length = 0
    while control.left > 0 and length < _LONGEST:
        main.append(control.block(Context(loops=loops)))
        length += count_statements(main[-1:])
    counters = ("mcountinhibit", "mcycle", "mcycleh", "minstret", "minstreth")
    reads = (f"csrrs {ABI_NAMES[draw.destination()]}, {name}, zero" for name in counters)
    main.append(ProgramBlock("counters", (), single_lines("csr", reads)))
    if config.performance_counters:
        main.append(control.system.read_counters())
    handlers = random_handlers(draw) if interrupts else Handlers(watches_loops=draw.config.xpulpv2)
    if isinstance(config, XifHost) and config.xif.accumulators:
        main.append(state_reads(draw))
        if interrupts and draw.chance(_KEPT):
            handlers = replace(handlers, filler=keeping_state(draw, handlers.filler))
    program = RandomProgram(tuple(main), functions, handlers, seed, f"{style} program {seed}")
    return framed(program, interrupts=interrupts)


def framed(program: RandomProgram, *, interrupts: bool) -> RandomProgram:
    """Return the program with interrupts enabled after its first block, and with all registers stored at its end."""
    first, *blocks = program.main
    if interrupts:
        lines = ("addi t1, zero, -1", "csrrw zero, mie, t1", "csrrsi zero, mstatus, 8")
        blocks.insert(0, ProgramBlock("interrupts", lines))
    # with interrupts off every register is stored, so that a wrong one is seen at last
    blocks.append(ProgramBlock("interrupts", ("csrrci zero, mstatus, 8",)))
    stores = (f"sw {ABI_NAMES[register]}, {WORD_BYTES * register}(t1)" for register in (*POOL, *RARE))
    signature = ProgramBlock("signature", (f"li t1, 0x{SIGNATURE:x}",), single_lines("store", stores))
    return replace(program, main=(first, *blocks, signature))
