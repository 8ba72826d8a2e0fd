"""Instructions of the coprocessor behind CV-X-IF for random programs: runs of them, and steps that load by pointers."""

from collections.abc import Iterator, Sequence
from itertools import chain

from xpulpnn.isa.fields import WORD_FIELDS
from xpulpnn.isa.machine import WORD_BYTES
from xpulpnn.isa.xif import FIRST_POINTER, STEP_BITS
from xpulpnn_sim.reference.bare.draw import Draw, Group
from xpulpnn_sim.reference.bare.layout import FAILING, HANDLER, POOL, SAVE, SCRATCH
from xpulpnn_sim.reference.bare.program import ProgramBlock, single_lines
from xpulpnn_sw.assembly.disasm import ABI_NAMES

_CSR_CHANCE = 0.2  # how often a CSR is read, an instruction that the coprocessor refuses
_CSRS = ("mcycle", "minstret", "mscratch")
_STEPS_CHANCE = 0.4
_MOST_STEPS = 6
_CONTEXT = 0x40  # offset of the saved state, behind what handlers save first
_REACH = 0x80  # bytes behind the words with bus errors, where the pointers begin


def coprocessor_block(draw: Draw) -> ProgramBlock:
    """Return a run of instructions; after steps it ends with pa.sync, since stores must wait for their loads."""
    lines = [_between(draw) for _ in range(draw.rng.randrange(2, 9))]
    steps = [row for row in draw.rows.values() if row.op == "pa.step"]
    if not steps or not draw.chance(_STEPS_CHANCE):
        return ProgramBlock("coprocessor", (), single_lines("coprocessor", lines))
    head, sync = list(_pointers(draw)), draw.rows["pa.sync", "rd"]
    for row in draw.rng.choices(steps, k=draw.rng.randrange(1, 3)):
        count = draw.rng.randrange(_MOST_STEPS) | draw.rng.getrandbits(32 - STEP_BITS) << STEP_BITS
        head += [f"li {ABI_NAMES[SCRATCH]}, 0x{count:x}", draw.text(row, {"rs1": SCRATCH})]
    return ProgramBlock("steps", tuple(head), single_lines("between", lines), (draw.text(sync, draw.values(sync)),))


def _between(draw: Draw) -> str:
    if draw.chance(_CSR_CHANCE):
        return f"csrrs {ABI_NAMES[draw.destination()]}, {draw.rng.choice(_CSRS)}, zero"
    return draw.arithmetic(group=Group.COPROCESSOR if draw.chance(0.7) else None)


def _pointers(draw: Draw) -> Iterator[str]:
    registers = SCRATCH, draw.rng.choice(POOL)
    for register in registers:
        yield f"li {ABI_NAMES[register]}, 0x{sum(FAILING) + draw.rng.randrange(_REACH):x}"
    if draw.chance(0.5):
        yield draw.text(draw.rows["pa.ptr", "rs1,rs2"], dict(zip(("rs1", "rs2"), registers, strict=True)))
        return
    for number, register in enumerate(registers, FIRST_POINTER):
        yield draw.text(draw.rows["pa.wr", "r,rs1"], {"r": number, "rs1": register})


def keeping_state(draw: Draw, lines: Sequence[str]) -> tuple[str, ...]:
    """Return the lines of an interrupt handler behind code that saves the whole state, and before code that restores
    it."""
    read, write, name = draw.rows["pa.rd", "rd,r"], draw.rows["pa.wr", "r,rs1"], ABI_NAMES[HANDLER]
    words = WORD_FIELDS["r"].values
    slots = {r: f"{name}, {_CONTEXT + WORD_BYTES * r}({ABI_NAMES[SAVE]})" for r in words}
    saving = chain(*((draw.text(read, {"rd": HANDLER, "r": r}), f"sw {slots[r]}") for r in words))
    restoring = chain(*((f"lw {slots[r]}", draw.text(write, {"r": r, "rs1": HANDLER})) for r in words))
    return (*saving, *lines, *restoring)


def state_reads(draw: Draw) -> ProgramBlock:
    """Return reads of the whole state, so that a wrong word is seen at last."""
    row = draw.rows["pa.rd", "rd,r"]
    reads = (draw.text(row, {"rd": draw.rng.choice(POOL), "r": number}) for number in WORD_FIELDS["r"].values)
    return ProgramBlock("state", (), single_lines("state", reads))
