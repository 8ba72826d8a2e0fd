"""Constrained-random programs: a seed decides everything."""

from collections.abc import Mapping
from dataclasses import replace
from random import Random

from xpulpnn.config import CoreConfig
from xpulpnn_sim.reference.stimuli import random_word
from xpulpnn_sim.verification.random.control import Context, Control
from xpulpnn_sim.verification.random.draw import Draw, Group
from xpulpnn_sim.verification.random.layout import POOL, RARE, SHIFTS, SIGNATURE
from xpulpnn_sim.verification.random.memory_run import MemoryRun, aimed_lines, shift_register
from xpulpnn_sim.verification.random.program import Block, Handlers, Program, count_statements, random_handlers
from xpulpnn_sw.assembly.disasm import ABI_NAMES

_BASE: Mapping[str, float] = {
    "arithmetic": 6,
    "memory": 4,
    "Mac&Load": 3,
    "mixed": 3,
    "csr": 2,
    "trap": 1.5,
    "unfetched": 0.5,
    "failing": 1.5,
    "wfi": 0.4,
    "fence": 0.4,
    "modify": 0.4,
    "mtvec": 0.3,
    "mret": 0.4,
    "interrupts": 0.6,
    "stack": 0.3,
    "branch": 3,
    "exit": 0.8,
    "jump": 1.2,
    "subroutine": 0.8,
    "call": 0.8,
    "counted": 0.6,
    "loop": 2,
}
"""Frequency of each kind of block."""

_QUANTISING: Mapping[str, float] = {"quantise": 4}  # the same of those only for cores with pv.qnt
_REQUANTISING: Mapping[str, float] = {"requantise": 6}  # and for cores with pv.rq*

STYLES: Mapping[str, Mapping[str, float]] = {
    "balanced": {},
    "memory": {"memory": 14, "mixed": 10, "arithmetic": 3},
    "Mac&Load": {"Mac&Load": 16, "mixed": 8},
    "control": {"branch": 10, "exit": 3, "jump": 6, "subroutine": 4, "call": 4, "counted": 2},
    "loops": {"loop": 12, "exit": 2, "counted": 1.5},
    "system": {
        "csr": 8,
        "trap": 6,
        "unfetched": 2,
        "failing": 5,
        "wfi": 2,
        "fence": 2,
        "modify": 2,
        "mtvec": 1,
        "mret": 2,
        "interrupts": 2,
    },
    "arithmetic": {"arithmetic": 30},
}
"""Weights that a style of program changes."""

BUDGET = 4000  # instructions that a program executes, about
_LONGEST = 900  # Statements after which no block is added
_FUNCTIONS = 3
_FUNCTION_SCALE = 4  # calls that are assumed of a function while it is written


def initial_registers(draw: Draw) -> Block:
    """Values for all registers of the random instructions."""
    words = {register: random_word(draw.rng) for register in (*POOL, *RARE)}
    if draw.decks[Group.REQUANTISE]:
        words |= {register: shift_register(draw.rng, width) for width, register in SHIFTS.items()}
    lines = (f"li {ABI_NAMES[register]}, 0x{word:x}" for register, word in words.items())
    return Block("registers", (), tuple(Block("register", (line,)) for line in lines))


def generate(config: CoreConfig, seed: int, *, interrupts: bool = False, budget: int = BUDGET) -> Program:
    """The random program number ``seed``."""
    rng = Random(f"program {seed}")
    draw, style = Draw(rng, config), rng.choice([*STYLES])
    optional = {**(_QUANTISING if config.qnt else {}), **(_REQUANTISING if config.requantise else {})}
    control = Control(draw, {**_BASE, **optional, **STYLES[style]}, interrupts=interrupts)
    loops = frozenset({0, 1}) if config.xpulpv2 else frozenset[int]()
    functions = tuple(
        control.function(loops, BUDGET // _FUNCTION_SCALE**2) for _ in range(rng.randrange(_FUNCTIONS + 1))
    )
    main: list[Block] = [initial_registers(draw)]
    if config.mac_load:
        main.append(MemoryRun(draw, "Mac&Load").block(8))
    if config.requantise:
        main.append(Block("parameters", aimed_lines(draw)))
    control.left = budget
    length = 0
    while control.left > 0 and length < _LONGEST:
        main.append(control.block(Context(loops=loops)))
        length += count_statements(main[-1:])
    handlers = random_handlers(draw) if interrupts else Handlers(watches_loops=draw.has_xpulp)
    return framed(Program(tuple(main), functions, handlers, seed, f"{style} program {seed}"), interrupts=interrupts)


def framed(program: Program, *, interrupts: bool) -> Program:
    """A program whose first block sets the registers, with interrupts enabled behind it, and all registers stored."""
    first, *blocks = program.main
    if interrupts:
        lines = ("addi t1, zero, -1", "csrrw zero, mie, t1", "csrrsi zero, mstatus, 8")
        blocks.insert(0, Block("interrupts", lines))
    # with interrupts off every register is stored, so that a wrong one is seen at last
    blocks.append(Block("interrupts", ("csrrci zero, mstatus, 8",)))
    stores = tuple(Block("store", (f"sw {ABI_NAMES[register]}, {4 * register}(t1)",)) for register in (*POOL, *RARE))
    signature = Block("signature", (f"li t1, 0x{SIGNATURE:x}",), stores)
    return replace(program, main=(first, *blocks, signature))
