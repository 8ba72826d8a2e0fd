"""CSR accesses, traps, wfi, mret, fences and self-modifying code for random programs."""

from collections.abc import Collection

from xpulpnn.isa.csr import CSR_BY_ADDRESS, CSRS, NN_GROUPS, ZERO_CSRS, CsrAccess, CsrGroup
from xpulpnn.isa.machine import HALF_BYTES, TEXT_BASE, WORD_BYTES, XLEN
from xpulpnn_sim.reference.bare.draw import Draw, Group
from xpulpnn_sim.reference.bare.layout import FAILING, POOL, SCRATCH, SECOND_TABLE, UNFETCHED
from xpulpnn_sim.reference.bare.program import ProgramBlock, block_of, single_lines
from xpulpnn_sim.reference.programs.elf import Window
from xpulpnn_sw.assembly.disasm import ABI_NAMES

_X6 = ABI_NAMES[SCRATCH]


_FREE = ("mscratch", "mcause", "mepc", "mepc", "mcountinhibit", "mie", "mstatus", "minstret", "minstreth")
_FREE += ("mcycle", "mcycleh")
"""CSRs that random instructions may write with any value; mepc more often, as a trap soon replaces what was written."""
_READABLE = tuple(csr for csr in CSRS if csr.group is CsrGroup.BASE and csr not in ZERO_CSRS)
_OTHER = frozenset({"mcause", "mtvec"})  # CSRs in which cores of others have other bits
_COUNTS = ("lpcount0", "lpcount1")
_NEAR_CHANCE, _NEAR = 0.3, 500  # how often counters start near their largest value, and how near
_READ_CHANCE, _MOST_READ = 0.5, 6  # how often performance counters are read instead, and how many at a time
_SWITCH_CHANCE = 0.3  # how often some of them stand still before that
_PERFORMANCE = tuple(csr for csr in CSRS if csr.group is CsrGroup.PERFORMANCE)
_ADDRESSES = 1 << 12
_CLEARS = ("csrrc", "csrrci")
_NN_LOADS = (
    ("pv.rqld", "uimm1,(rs1!)", "0, ({1}!)"),
    ("pv.rqld", "uimm1,(rs1!)", "1, ({1}!)"),
    ("pv.mlsdotup.b", "rd~,(rs1!),nnimm5'", "{0}, ({1}!), 25"),
    ("pv.mldotsp.c", "rd,(rs1!),nnimm5", "{0}, ({1}!), 8"),
    ("pv.mldotup.h", "rd,(rs1!),nnimm5", "{0}, ({1}!), 18"),
)
"""Loads into the NN-RF: mnemonic, operands in the instruction table, operands of the generated instruction."""
_HARMLESS = ("add", "xor", "or", "sub", "sll", "sltu")  # rows for instructions written into the code


class SystemBlocks:
    def __init__(
        self,
        draw: Draw,
        *,
        interrupts: bool = False,
        unfetched: Window = UNFETCHED,
        failing: Window = FAILING,
        on_host: bool = False,
    ) -> None:
        self._draw, self._interrupts = draw, interrupts  # with interrupts they are enabled, and wfi ends
        self._on_host = on_host  # a core of somebody else, of whose CSRs only those that are alike are accessed
        self._unfetched, self._failing = unfetched, failing  # what the bus answers with an error
        self._rng = draw.rng

    def csr(self, *, last: bool = False) -> ProgramBlock:
        """Return code that accesses a readable, writable, read-only or missing CSR."""
        # the `last` instruction of a loop must not clear bits of its count: the old value, before it counts down, would
        # stay for ever
        draw, rng = self._draw, self._rng
        if draw.config.performance_counters and not last and draw.chance(_READ_CHANCE):
            some = draw.chance(_SWITCH_CHANCE)
            return self.count_some() if some else self.read_counters(rng.randrange(1, _MOST_READ))
        insn = draw.deal(Group.CSR)
        values = draw.values(insn)
        source = "zimm5" if "zimm5" in values else "rs1"
        kind, head = rng.randrange(7 if self._on_host else 10), ()
        if kind < 5:
            name = rng.choice([name for name in _FREE if not (self._on_host and name in _OTHER)])
            if name == "mstatus" and self._interrupts and draw.chance(0.7):
                # keep them enabled most of the time
                return ProgramBlock("csr", (f"csrrsi {ABI_NAMES[values['rd']]}, mstatus, 8",))
            address = next(csr.address for csr in CSRS if csr.name == name)
            if source == "rs1" and not last:
                values[source] = SCRATCH
                head = (f"li {_X6}, 0x{rng.getrandbits(XLEN):x}",)
        elif kind < 7:
            among = ZERO_CSRS if draw.chance(0.2) else _READABLE
            chosen = rng.choice([csr for csr in among if not (self._on_host and csr.name in _OTHER)])
            address = chosen.address
            if chosen.name == "mtvec":
                values[source] = 0
                insn = draw.rows["csrrsi" if source == "zimm5" else "csrrs", insn.operands]
        elif kind < 8 and draw.config.nn_csrs and draw.chance(0.8):
            groups = draw.config.csr_groups.intersection(NN_GROUPS)
            address = rng.choice([csr.address for csr in CSRS if csr.group in groups])
        elif kind < 8 and draw.config.performance_counters:
            address = rng.choice(_PERFORMANCE).address
        elif kind < 9 and draw.config.xpulpv2:
            return self._loop_csr(clears=not last)
        else:
            address = self._missing()
        values["csr"] = address
        access, names = ProgramBlock("csr", (*head, draw.text(insn, values))), [csr.name for csr in _READABLE]
        if last or address not in CSR_BY_ADDRESS or CSR_BY_ADDRESS[address].name not in names or draw.chance(0.2):
            return access
        # a write is seen
        read = f"csrrs {ABI_NAMES[draw.destination()]}, {CSR_BY_ADDRESS[address].name}, zero"
        return ProgramBlock("csr", access.head, (ProgramBlock("csr", (read,)),))

    def _missing(self) -> int:
        """Return the address of a missing or a read-only CSR."""
        if self._draw.chance(0.3):
            return self._rng.choice([csr.address for csr in _READABLE if csr.access is CsrAccess.RO])
        while True:
            address = self._rng.randrange(_ADDRESSES)
            if address not in CSR_BY_ADDRESS:
                return address

    def _loop_csr(self, *, clears: bool) -> ProgramBlock:
        """Return code that reads the state of a hardware loop or decreases its count, so that the loop still ends."""
        draw, rng = self._draw, self._rng
        destination = ABI_NAMES[draw.destination()]
        if not clears or draw.chance(0.5):
            name = rng.choice([csr.name for csr in CSRS if csr.group is CsrGroup.HWLOOP])
            return ProgramBlock("csr", (f"csrrs {destination}, {name}, zero",))
        mnemonic = rng.choice(_CLEARS)
        source = str(rng.randrange(32)) if mnemonic.endswith("i") else ABI_NAMES[draw.source()]
        return ProgramBlock("csr", (f"{mnemonic} {destination}, {rng.choice(_COUNTS)}, {source}",))

    def count(self) -> ProgramBlock:
        text = f"addi {_X6}, zero, -1; csrrw zero, pcer, {_X6}; csrrwi zero, pcmr, {self._rng.choice((1, 3))}"
        if self._draw.chance(_NEAR_CHANCE):
            text += f"; addi {_X6}, zero, {-self._rng.randrange(1, _NEAR)}; csrrw zero, pccrall, {_X6}"
        return block_of("counters", text)

    def count_some(self) -> ProgramBlock:
        """Return code that stops some performance counters for a few instructions, and often starts them again."""
        draw, rng = self._draw, self._rng
        enables, mode = (ABI_NAMES[draw.destination()] for _ in range(2))
        lines = (
            f"li {_X6}, 0x{rng.getrandbits(XLEN):x}",
            f"{rng.choice(('csrrw', 'csrrs', 'csrrc'))} {enables}, pcer, {_X6}",
            f"csrrwi {mode}, pcmr, {rng.randrange(4)}",
        )
        between = single_lines("between", (draw.arithmetic() for _ in range(rng.randrange(6))))
        reads = self.read_counters(rng.randrange(1, _MOST_READ))
        return ProgramBlock("counters", lines, (*between, reads), self.count().head if draw.chance(0.8) else ())

    def read_counters(self, number: int = len(_PERFORMANCE)) -> ProgramBlock:
        """Return code that reads ``number`` performance counters and their control registers in random order."""
        names = self._rng.sample([csr.name for csr in _PERFORMANCE], number)
        reads = (f"csrrs {ABI_NAMES[self._draw.destination()]}, {name}, zero" for name in names)
        return ProgramBlock("counters", (), single_lines("csr", reads))

    def trap(self) -> ProgramBlock:
        text = self._rng.choice(("ecall", "ebreak", "c.ebreak", "", "", ""))
        return ProgramBlock("trap", (text or self._draw.illegal(),))

    def unfetched(self) -> ProgramBlock:
        """Return a jump to an address that cannot be fetched; the handler returns to the link address in t1."""
        base, size = self._unfetched
        target = base + HALF_BYTES * self._rng.randrange(size // HALF_BYTES)
        return ProgramBlock("unfetched", (f"li {_X6}, 0x{target:x}", f"jalr {_X6}, 0({_X6})"))

    def failing(self, loops: Collection[int]) -> ProgramBlock:
        """Return code that accesses memory with bus errors, and then an instruction that must not act before the fault.

        The instruction may set the count of a loop in ``loops``, to a value with which the loop does not jump back.
        """
        draw, rng = self._draw, self._rng
        first, size = self._failing
        address = first + rng.randrange(1 - WORD_BYTES, size)
        value = ABI_NAMES[draw.destination()]
        forms = ["lw {0}, 0({1})", "lh {0}, 0({1})", "lbu {0}, 0({1})", "sw {0}, 0({1})", "sh {0}, 0({1})"]
        if draw.config.xpulpv2:
            forms += ["p.lw {0}, 4({1}!)", "p.sw {0}, 4({1}!)", "p.sh {0}, 2({1}!)", "p.lw {0}, zero({1}!)"]
        forms += [f"{name} {text}" for name, operands, text in _NN_LOADS if (name, operands) in draw.rows]
        followers = [(), (draw.arithmetic(),), *[self.trap().head] * 3, self.fence().head, self.csr().head]
        followers += [(f"lp.counti {loop}, {rng.randrange(2)}",) for loop in loops for _ in range(2)]
        followers += [self._draw.requantised()] * 2
        access = rng.choice(forms).format(value, _X6)
        lines = (f"li {_X6}, 0x{address:x}", *self._draw.requantised(), access, *rng.choice(followers))
        return ProgramBlock("failing", lines)

    def wait(self) -> ProgramBlock:
        if not self._interrupts:
            return self.fence()
        lines = (f"addi {_X6}, zero, -1", f"csrrw zero, mie, {_X6}", *self._draw.requantised(), "wfi")
        return ProgramBlock("wfi", lines)

    def fence(self) -> ProgramBlock:
        row = self._draw.rows[self._rng.choice((("fence", "pred,succ"), ("fence.i", "")))]
        return ProgramBlock("fence", (*self._draw.requantised(), self._draw.text(row, self._draw.values(row))))

    def vectors(self) -> ProgramBlock:
        """Return code that points mtvec to one of two vector tables in a random mode; its ignored bits are random."""
        value = self._rng.choice((TEXT_BASE, SECOND_TABLE)) | self._rng.getrandbits(8)
        return block_of("mtvec", f"li {_X6}, 0x{value:x}; csrrw {ABI_NAMES[self._draw.destination()]}, mtvec, {_X6}")

    def enable(self, *, on: bool) -> ProgramBlock:
        return ProgramBlock("mstatus", (f"csrr{'s' if on else 'c'}i zero, mstatus, 8",))

    def leave(self) -> ProgramBlock:
        draw, target = self._draw, self._draw.label("mret")
        head = ["csrrci zero, mstatus, 8"]
        if draw.chance(0.5):
            # MPIE, bit 7: decides whether mret enables interrupts
            head += [f"addi {_X6}, zero, 128", f"csrr{draw.rng.choice('sc')} zero, mstatus, {_X6}"]
        head += [f"la {_X6}, {target}", f"csrrw zero, mepc, {_X6}", "mret"]
        skipped = single_lines("skipped", (draw.arithmetic() for _ in range(self._rng.randrange(3))))
        return ProgramBlock("mret", tuple(head), skipped, (f"{target}:",))

    def self_modify(self, flush: tuple[str, ...] = ()) -> ProgramBlock:
        """Return code that toggles a later instruction between two, and flushes the caches with ``flush``."""
        draw, rng, patch = self._draw, self._rng, self._draw.label("patch")
        insns = [draw.rows[rng.choice(_HARMLESS), "rd,rs1,rs2"] for _ in range(2)]
        old, new = (insn.encode(**draw.values(insn)) for insn in insns)
        first, second = (ABI_NAMES[number] for number in rng.sample(POOL, 2))
        change = f"""
        la {_X6}, {patch}; li {first}, 0x{old ^ new:08x}; lw {second}, 0({_X6})
        xor {first}, {first}, {second}; sw {first}, 0({_X6})"""
        between = single_lines("between", (draw.arithmetic() for _ in range(rng.choice((0, 0, 0, 1, 2)))))
        head = (*block_of("", change).head, *flush, "fence.i")
        return ProgramBlock("self-modifying", head, between, (f"{patch}:", f".word 0x{old:08x}"))
