"""Vector tables and trap handlers of the bare programs."""

from dataclasses import dataclass

from xpulpnn.isa.machine import ENTRY, VECTORS
from xpulpnn_sim.verification.random.draw import ARITHMETIC, Draw, written_fields
from xpulpnn_sim.verification.random.layout import SAVE_LIMIT, SECOND_TABLE

_LEVEL = 64  # bytes of the save area that one interrupt uses
_TABLE_WORDS = (SECOND_TABLE - ENTRY) // 4
_LOOP_CSRS = ("lpstart0", "lpend0", "lpcount0", "lpstart1", "lpend1", "lpcount1")
_WORK = (8, 9)  # registers the longer handler saves and uses

_EXCEPTION = """
exception:
    sw t1, 0(t5); sw t6, 4(t5)
    {watch}
    csrrs t6, mcause, zero; blt t6, zero, direct
    addi t6, t6, -1; beq t6, zero, unfetched
    csrrs t6, mepc, zero; lhu t1, 0(t6)
    andi t1, t1, 3; addi t1, t1, -3; beq t1, zero, wide
    addi t6, t6, -2
wide:
    addi t6, t6, 4
back:
    csrrw zero, mepc, t6; lw t6, 4(t5); lw t1, 0(t5); mret
unfetched:
    addi t6, t1, 0; csrrs t1, mepc, zero; csrrw zero, mscratch, t1; jal zero, back
direct:
    lw t6, 4(t5); lw t1, 0(t5)
interrupt:
"""
"""Skips the instruction that trapped, 2 or 4 bytes; goes to t1 and leaves mepc in mscratch if it could not even be
fetched; an interrupt in direct mode goes on to its handler. ``watch`` stands for reads of CSRs.
"""
_WATCHED = ("mstatus", "minstret")

_QUICK = "quick: sw t6, 4(t5); csrrs t6, mcause, zero; lw t6, 4(t5); mret"


@dataclass(frozen=True, slots=True)
class Handlers:
    """Actions of the handlers of a program."""

    # what each interrupt vector from 1 on holds: `j LABEL` or `mret`
    slots: tuple[str, ...] = ("mret",) * (VECTORS - 1)
    filler: tuple[str, ...] = ()  # instructions of the longer interrupt handler
    nests: bool = False  # it enables interrupts for a while
    loops: bool = False  # it saves the loop registers, runs a hardware loop and restores them
    watches_loops: bool = False  # the exception handler reads the loop registers
    # another exception handler, from the label `exception` on, with the label `interrupt` at its end
    exception: str = _EXCEPTION

    def text(self, start: str) -> str:
        """Both vector tables, the entry that jumps to ``start``, and the handlers."""
        table = ["jal zero, exception", *(slot.replace("j ", "jal zero, ") for slot in self.slots)]
        lines = [*table, f"_start: jal zero, {start}", *[".word 0"] * (_TABLE_WORDS - 1), *table]
        names = (*_WATCHED, *(_LOOP_CSRS if self.watches_loops else ()))
        watch = "\n".join(f"    csrrs t6, {name}, zero" for name in names)
        exception = self.exception.replace("    {watch}", watch)
        lines += [*exception.strip().splitlines(), *self._interrupt(), _QUICK]
        return "\n".join(lines)

    def _interrupt(self) -> list[str]:
        """The longer handler."""
        saved = {"t1": 0, "t6": 4, "s0": 8, "s1": 12}
        lines = [f"sw {name}, {offset}(t5)" for name, offset in saved.items()]
        lines += self._loop() if self.loops else []
        lines += self.filler
        lines += self._nested() if self.nests else []
        lines += [f"lw {name}, {offset}(t5)" for name, offset in saved.items()]
        return [*lines, "mret"]

    def _loop(self) -> list[str]:
        """A loop of its own between saving and restoring the state of the interrupted one; counts come last."""
        lines: list[str] = []
        for index, name in enumerate(_LOOP_CSRS):
            lines += [f"csrrs t6, {name}, zero", f"sw t6, {28 + 4 * index}(t5)"]
        lines += ["addi t6, zero, 3", "lp.setup 0, t6, work", "addi s0, s0, 1", "work: add s1, s1, s0"]
        for index, name in enumerate(_LOOP_CSRS):
            lines += [f"lw t6, {28 + 4 * index}(t5)", f"csrrw zero, {name}, t6"]
        return lines

    @staticmethod
    def _nested() -> list[str]:
        """Trap state saved, interrupts enabled unless the save area is used up, an exception, all restored."""
        names = {"mepc": 16, "mstatus": 20, "mcause": 24}
        lines = [line for name, at in names.items() for line in (f"csrrs t6, {name}, zero", f"sw t6, {at}(t5)")]
        lines += [
            f"addi t5, t5, {_LEVEL}; li t6, 0x{SAVE_LIMIT:x}; bgeu t5, t6, full",
            "csrrsi zero, mstatus, 8; addi s0, s0, 1; add s1, s1, s0; ecall",
            f"full: csrrci zero, mstatus, 8; addi t5, t5, -{_LEVEL}",
        ]
        return lines + [line for name, at in names.items() for line in (f"lw t6, {at}(t5)", f"csrrw zero, {name}, t6")]


PLAIN = Handlers()  # Nothing but the exception handler; interrupts return at once


def _filler(draw: Draw) -> str:
    """An instruction among the registers the handler has saved."""
    insn = draw.deal(*ARITHMETIC)
    pins = {name: draw.rng.choice(_WORK) for name in written_fields(insn)}
    return draw.text(insn, draw.values(insn, pins=pins))


def random_handlers(draw: Draw) -> Handlers:
    """Handlers of random length; loops only where there are hardware loops."""
    rng = draw.rng
    slots = tuple(rng.choice(("j interrupt", "j interrupt", "j quick", "mret")) for _ in range(VECTORS - 1))
    filler = tuple(_filler(draw) for _ in range(rng.choice((0, 0, 1, 3))))
    return Handlers(slots, filler, draw.chance(0.4), draw.has_xpulp and draw.chance(0.4), draw.has_xpulp)
