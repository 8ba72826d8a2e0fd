"""Hardware loops: where every instruction goes on, and what is left of the counts (guide, "Hardware loops").

The property is about what retires. What is in EX and WB is carried to its end in the same words, which relates the
registers of the manual to those of the core in every cycle: a relation that holds from one cycle to the next, so that
the proof has no depth.
"""

from amaranth.hdl import Cat, Const, Module, Mux, Signal

from xpulpnn.isa.csr import csr_address
from xpulpnn.isa.machine import XLEN
from xpulpnn_sim.sequencing.words import Word

REGISTERS = tuple(f"{name}{loop}" for loop in range(2) for name in ("lpstart", "lpend", "lpcount"))
STARTI, ENDI, COUNT, COUNTI, SETUP, SETUPI = range(6)
"""funct3 of the set-up instructions."""


def watch_loops(m: Module, core, seen):
    """What is wrong if an instruction retires elsewhere than the loops say, or reads other loop registers.

    The six registers are kept as the manual says: a set-up instruction or a write to their CSRs sets them; an
    instruction that completes at lpend with a count above 1 is followed by the one at lpstart, loop 0 first, and takes
    1 off the count, unless it traps, jumps, returns or is a branch that is taken. Where an instruction does not jump,
    the next one that retires must be the one that follows, or mepc must become its address if an interrupt is taken
    between them.

    Parameters
    ----------
    m : Module
        Takes the logic.
    core : Core
        Its retirement port.
    seen : mapping of str to Value
        Signals of :data:`~xpulpnn_sim.sequencing.seen.CORE` and :data:`~xpulpnn_sim.sequencing.seen.LOOPS`.

    Returns
    -------
    wrong : dict of str to Value, 1 bit
        The property, by parts.
    relation : dict of str to Value, 1 bit
        Where the core is not in the relation that the proof uses.
    """
    kept = {name: Signal(XLEN, name=f"kept_{name}") for name in REGISTERS}
    was_taken = Signal()
    with m.If(seen["ex_leaves"]):
        m.d.sync += was_taken.eq(seen["taken"])
    wb = _Step(m, "wb", core.rvfi_insn, core.rvfi_pc_rdata, core.rvfi_rs1_rdata, seen["wb_valid"] & ~core.rvfi_trap)
    wb.carry_out(kept, was_taken, finished=True)
    ex = _Step(m, "ex", seen["ex_insn"], seen["ex_pc"], seen["ex_rs1"], seen["ex_valid"] & ~seen["ex_trap"])
    ex.carry_out(wb.after, Const(0), finished=False)
    with m.If(core.rvfi_valid):
        m.d.sync += [kept[name].eq(wb.after[name]) for name in REGISTERS]

    wrong, relation = {}, {}
    reads = {
        name: wb.completes & wb.word.accesses_csr & (wb.word.top12 == csr_address(name)) & core.rvfi_rd_we
        for name in REGISTERS
    }
    for name, old in kept.items():
        relation[f"read_{name}"] = reads[name] & (core.rvfi_rd_wdata != old)
        wrong[f"read {name}"] = core.rvfi_valid & relation[f"read_{name}"]

    # addresses: of what retires next, of what is in EX, of what is in ID or going to be
    known, expected = Signal(), Signal(XLEN)
    after_wb = Mux(seen["wb_valid"], wb.goes_on, known), Mux(seen["wb_valid"], wb.follows, expected)
    after_ex = Mux(seen["ex_valid"], ex.goes_on, after_wb[0]), Mux(seen["ex_valid"], ex.follows, after_wb[1])
    enters = seen["enter"] & seen["enter_interrupt"]
    m.d.sync += known.eq(Mux(core.rvfi_valid, wb.goes_on, known) & ~enters)
    with m.If(core.rvfi_valid):
        m.d.sync += expected.eq(wb.follows)
    wrong["next"] = core.rvfi_valid & known & (core.rvfi_pc_rdata != expected)
    now = Mux(core.rvfi_valid, wb.goes_on, known), Mux(core.rvfi_valid, wb.follows, expected)
    wrong["mepc"] = enters & now[0] & (seen["enter_pc"] != now[1])
    id_after = seen["id_pc"] + Mux(seen["id_short"], 2, 4)
    relation |= {
        "wb_pc": seen["wb_valid"] & known & (core.rvfi_pc_rdata != expected),
        "ex_pc": seen["ex_valid"] & after_wb[0] & (seen["ex_pc"] != after_wb[1]),
        "id_pc": seen["id_valid"] & after_ex[0] & (seen["id_pc"] != after_ex[1]),
        "if_pc": ~seen["id_valid"] & after_ex[0] & (seen["if_pc"] != after_ex[1]),
        "behind_id": seen["id_valid"] & ~seen["id_looped"] & (seen["if_pc"] != id_after[:XLEN]),
        "even_pcs": seen["if_pc"][0] | seen["id_pc"][0] | seen["ex_pc"][0] | core.rvfi_pc_rdata[0] | expected[0],
    }

    # registers: those of the core are ahead by what is in WB and EX
    late, ex_took, wb_took, gives_back = (seen[name] for name in ("late", "ex_took", "wb_took", "gives_back"))
    for name, value in ex.after.items():
        loop = int(name[-1])
        missing = gives_back & (late[loop] | ex_took[loop]) if name.startswith("lpcount") else Const(0)
        relation[name] = (seen[name] + missing)[:XLEN] != value
    taken_by = {"wb": Mux(wb.late, 0, wb.backs), "ex": Mux(ex.late, 0, ex.backs)}
    relation |= {
        "wb_took": ~gives_back & (wb_took != taken_by["wb"]),
        "ex_took": ~gives_back & (ex_took != taken_by["ex"]),
        "late": ~gives_back & (late != Mux(ex.late, ex.backs, 0)),
        "dropped": gives_back & (seen["ex_valid"] | wb.completes),
        "one_late": late.all() | ex_took.all() | wb_took.all(),
        "ahead_of_wb": seen["wb_busy"] & ~seen["outstanding"],
        "access": seen["wb_busy"] & ~wb.completes,
        "setup_waits": seen["outstanding"] & ((seen["ex_valid"] & ex.is_setup) | (wb.completes & wb.is_setup)),
        "ex_access": seen["ex_access"] & ~(seen["ex_valid"] & ~seen["ex_trap"]),
        "first_half": seen["outstanding"] & ~seen["wb_busy"] & ~(seen["ex_access"] & ~seen["wb_valid"]),
    }
    return wrong, relation


class _Step:
    """What one instruction does to loops, in the words of the manual.

    Parameters
    ----------
    m : Module
        Takes the logic.
    name : str
        For its signals.
    insn, pc, rs1 : Value, 32 bits
        The instruction as it was fetched, its address, and the value of its register rs1.
    completes : Value, 1 bit
        It is there and does not trap.
    """

    def __init__(self, m, name, insn, pc, rs1, completes):
        self.m, self.name = m, name
        self.pc, self.operand = pc, rs1
        self.word = word = Word(insn)
        self.completes = Signal(name=f"{name}_completes")
        self.is_setup = Signal(name=f"{name}_is_setup")
        self.late = Signal(name=f"{name}_late")
        m.d.comb += [
            self.completes.eq(completes),
            self.is_setup.eq(word.wide & (word.opcode == 0x7B)),
            self.late.eq(word.branches | word.accesses_csr),
        ]

    def carry_out(self, before, taken, *, finished):
        """Make ``after``, ``backs``, ``goes_on`` and ``follows``.

        Parameters
        ----------
        before : mapping of str to Value, 32 bits
            Registers before it.
        taken : Value, 1 bit
            If it is a branch, it is taken.
        finished : bool
            Whether branches and CSR instructions have had their effect, too.
        """
        m, word, pc = self.m, self.word, self.pc
        self.goes_on, self.backs = Signal(name=f"{self.name}_goes_on"), Signal(2, name=f"{self.name}_backs")
        self.follows = Signal(XLEN, name=f"{self.name}_follows")
        m.d.comb += self.goes_on.eq(self.completes & ~(word.jumps | word.returns | (word.branches & taken)))
        again = [
            (pc[1:] == before[f"lpend{loop}"][1:]) & (before[f"lpcount{loop}"] > 1) & self.goes_on for loop in range(2)
        ]
        m.d.comb += [self.backs.eq(Cat(again[0], again[1] & ~again[0])), self.follows.eq(pc + Mux(word.wide, 4, 2))]
        for loop in range(2):
            with m.If(self.backs[loop]):
                m.d.comb += self.follows.eq(before[f"lpstart{loop}"])
        offset = Cat(0, Mux(word.funct3 == SETUPI, word.rs1, word.top12))
        immediate_count = Mux(_among(word.funct3, COUNTI, SETUPI), word.top12, self.operand)
        sets = {
            "lpstart": (_among(word.funct3, STARTI, SETUP, SETUPI), pc + Mux(word.funct3 == STARTI, offset, 4)),
            "lpend": (_among(word.funct3, ENDI, SETUP, SETUPI), pc + offset),
            "lpcount": (_among(word.funct3, COUNT, COUNTI, SETUP, SETUPI), immediate_count),
        }
        self.after = {}
        for name, old in before.items():
            kind, loop = name[:-1], int(name[-1])
            chosen, value = sets[kind]
            self.after[name] = new = Signal(XLEN, name=f"{self.name}_{name}")
            mask = -1 if kind == "lpcount" else -2
            m.d.comb += new.eq(old)
            if kind == "lpcount":
                counts = self.backs[loop] & (Const(1) if finished else ~self.late)
                with m.If(counts):
                    m.d.comb += new.eq(old - 1)
            with m.If(self.completes & self.is_setup & chosen & (word.loop == loop)):
                m.d.comb += new.eq(value & mask)
            if finished:
                operand = Mux(word.funct3[2], word.rs1, self.operand)
                written = Mux(word.funct3[1], Mux(word.funct3[0], old & ~operand, old | operand), operand)
                accessed = self.completes & word.accesses_csr & (word.top12 == csr_address(name))
                with m.If(accessed & word.writes_csr):
                    m.d.comb += new.eq(written & mask)


def _among(value, *numbers):
    return Cat(value == number for number in numbers).any()
