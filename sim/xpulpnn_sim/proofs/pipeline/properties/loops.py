"""Hardware loops: addresses of instructions and remaining counts (see "Hardware loops" in the guide)."""

from amaranth.hdl import Cat, Mux, Signal

from xpulpnn.isa.csr import csr_address
from xpulpnn_sim.proofs.pipeline.properties.invariants import InstructionWord, Property, csr_invariants, implies

LOOPS = 2
REGISTERS = tuple(f"{name}{loop}" for loop in range(LOOPS) for name in ("lpstart", "lpend", "lpcount"))

_STARTI, _ENDI, _COUNT, _COUNTI, _SETUP, _SETUPI = range(6)  # funct3 of the set-up instructions

_OPCODE = 0x7B
_ALL = 0xFFFF_FFFF
_HALF_WORDS = 0xFFFF_FFFE


class _Effects:
    """Effects of a completing instruction on the registers of hardware loops.

    Set-up instructions and CSR writes set the registers. After an instruction at lpend with a count above 1, the
    instruction at lpstart follows and the count decreases (loop 0 has priority), unless the instruction at lpend jumps,
    returns or is a taken branch.
    """

    def __init__(self, m, prefix, raw, pc, rs1, taken, before, *, in_ex=False):
        self.word = word = InstructionWord(raw)
        self.sets = sets_up(word)
        self.late = word.branches | word.accesses_csr
        self.goes_on = goes_on = Signal(name=f"{prefix}_goes_on")
        m.d.comb += goes_on.eq(~(word.jumps | word.returns | (word.branches & taken)))
        again = [(pc[1:] == before[f"lpend{n}"][1:]) & (before[f"lpcount{n}"] > 1) & goes_on for n in range(LOOPS)]
        self.backs = Signal(LOOPS, name=f"{prefix}_backs")
        self.follows = Signal(32, name=f"{prefix}_follows")
        successor = pc + Mux(word.compressed, 2, 4)
        m.d.comb += [self.backs.eq(Cat(again[0], again[1] & ~again[0])), self.follows.eq(successor)]
        for loop in range(LOOPS):
            with m.If(self.backs[loop]):
                m.d.comb += self.follows.eq(before[f"lpstart{loop}"])
        self.accesses = {name: word.accesses_csr & (word.top12 == csr_address(name)) for name in before}
        self.after = {name: Signal(32, name=f"{prefix}_{name}") for name in before}
        values = self._values(pc, rs1)
        for name, old in before.items():
            kind, loop = name[:-1], int(name[-1])
            chosen, value = values[kind]
            after = self.after[name]
            mask = _ALL if kind == "lpcount" else _HALF_WORDS
            m.d.comb += after.eq(old)
            if kind == "lpcount":
                with m.If(self.backs[loop] & ~self.late if in_ex else self.backs[loop]):
                    m.d.comb += after.eq(old - 1)
            with m.If(self.sets & chosen & (word.loop == loop)):
                m.d.comb += after.eq(value & mask)
            if not in_ex:
                with m.If(self.accesses[name] & word.writes_csr):
                    m.d.comb += after.eq(word.written(old, rs1) & mask)

    def _values(self, pc, rs1):
        """Return, for each type of loop register, whether a set-up instruction sets it, and to which value."""
        word = self.word
        offset = Cat(0, Mux(word.funct3 == _SETUPI, word.rs1, word.top12))
        immediate_count = Mux(_among(word.funct3, _COUNTI, _SETUPI), word.top12, rs1)
        return {
            "lpstart": (_among(word.funct3, _STARTI, _SETUP, _SETUPI), pc + Mux(word.funct3 == _STARTI, offset, 4)),
            "lpend": (_among(word.funct3, _ENDI, _SETUP, _SETUPI), pc + offset),
            "lpcount": (_among(word.funct3, _COUNT, _COUNTI, _SETUP, _SETUPI), immediate_count),
        }


def sets_up(word):
    return word.wide & (word.opcode == _OPCODE)


def _among(value, *numbers):
    return Cat(value == number for number in numbers).any()


_ADDRESS = slice(1, 32)


def loop_property(m, core, seen, started):
    """Return the property that hardware loops determine the addresses of instructions and the values of loop registers.

    A model computes the six loop registers as the manual says (:class:`_Effects`), from retirements without traps only,
    starting with any values. After an instruction that does not jump, the next retiring instruction must be its
    successor or, if an interrupt is taken in between, mepc must be the successor's address. The invariants say that the
    core's registers equal the model's after the effects of the instructions in WB and EX, and that each address between
    fetch and WB follows from the previous instruction.
    """
    model = {name: Signal(32, name=f"kept_{name}") for name in REGISTERS}
    now = {name: Mux(started, model[name], seen[name]) for name in REGISTERS}
    # the retiring branch is the last instruction that left EX
    was_taken = Signal()
    with m.If(seen.ex_leaves):
        m.d.sync += was_taken.eq(seen.taken)
    completes = core.rvfi_valid & ~core.rvfi_trap
    wb = _Effects(m, "wb", core.rvfi_insn, core.rvfi_pc_rdata, core.rvfi_rs1_rdata, was_taken, now)
    wrong = {}
    for name, old in now.items():
        m.d.sync += model[name].eq(Mux(completes, wb.after[name], old))
        wrong[f"reads {name}"] = completes & wb.accesses[name] & core.rvfi_rd_we & (core.rvfi_rd_wdata != old)

    known, expected = Signal(name="loops_known"), Signal(32, name="loops_expected")
    # an interrupt may be taken in the cycle in which the previous instruction retires
    known_now = Mux(core.rvfi_valid, completes & wb.goes_on, known)
    expected_now = Mux(core.rvfi_valid, wb.follows, expected)
    enters = seen.enter & seen.enter_interrupt
    m.d.sync += [known.eq(known_now & ~enters), expected.eq(expected_now)]
    wrong |= {
        "next instruction": core.rvfi_valid & known & ~core.rvfi_intr & _differ(core.rvfi_pc_rdata, expected),
        "mepc": enters & known_now & _differ(seen.enter_pc, expected_now),
    }
    in_wb, in_ex = seen.has_wb & ~core.rvfi_trap, seen.has_ex & ~seen.ex_trap
    between = {name: Mux(in_wb, wb.after[name], old) for name, old in now.items()}
    ex = _Effects(m, "ex", seen.ex_insn, seen.ex_pc_rdata, seen.ex_rs1_rdata, 0, between, in_ex=True)
    left = {name: Mux(in_ex, ex.after[name], old) for name, old in between.items()}
    begun = started & seen.booted
    reads, value = in_wb & core.rvfi_rd_we, core.rvfi_rd_wdata
    invariants = {
        "nothing is known at first": begun | ~(known | seen.gives_back),
        **{f"reads {name}": implies(reads & wb.accesses[name], value == old) for name, old in now.items()},
        **_kind_invariants(seen, in_ex, ex, wb),
        **_address_invariants(core, seen, in_ex, ex, in_wb, wb, known, expected),
        **_count_invariants(seen, in_ex, ex, in_wb, wb, left),
        "what is behind a taken branch is dropped": implies(in_wb & wb.word.branches & was_taken, ~seen.has_ex),
    }
    return Property(wrong, invariants)


def _differ(address, other):
    return address[_ADDRESS] != other[_ADDRESS]


def _kind_invariants(seen, in_ex, ex, wb):
    expanded, raw = InstructionWord(seen.id_word), InstructionWord(seen.id_raw)
    kinds = ("branches", "jumps", "returns")
    equal = Cat(getattr(expanded, kind) == getattr(raw, kind) for kind in kinds).all()
    return {
        "what is expanded is alike": implies(seen.id_valid & seen.id_compressed, equal, ~sets_up(expanded)),
        "an access in EX does nothing else": implies(in_ex & seen.ex_access[0], ~(ex.sets | ex.late | ex.word.jumps)),
        "an access in WB does nothing else": implies(seen.lsu_wb_busy, ~(wb.sets | wb.late | wb.word.jumps)),
        "a set-up does not wait": implies(in_ex & ex.sets, seen.ex_ready, ~seen.lsu_wb_busy),
        "branches are branches": implies(in_ex, seen.ex_branch == ex.word.branches),
        **csr_invariants(seen, in_ex, ex.word),
    }


def _address_invariants(core, seen, in_ex, ex, in_wb, wb, known, expected):
    has_ex, has_wb, id_pc, if_pc = (seen[name] for name in ("has_ex", "has_wb", "id_pc", "if_pc"))
    before_ex_known = Mux(has_wb, in_wb & wb.goes_on, known)
    before_ex = Mux(has_wb, wb.follows, expected)
    before_id_known, before_id = Mux(has_ex, in_ex & ex.goes_on, before_ex_known), Mux(has_ex, ex.follows, before_ex)
    behind_id = (id_pc + Mux(seen.id_compressed, 2, 4))[:32]
    return {
        "IF is behind ID": implies(seen.id_valid & ~seen.id_looped, ~_differ(if_pc, behind_id)),
        "ID is behind EX": implies(before_id_known, ~_differ(Mux(seen.id_valid, id_pc, if_pc), before_id)),
        "EX is behind WB": implies(has_ex & before_ex_known, ~_differ(seen.ex_pc_rdata, before_ex)),
        "WB is behind what retired": implies(has_wb & known, ~_differ(core.rvfi_pc_rdata, expected)),
    }


def _count_invariants(seen, in_ex, ex, in_wb, wb, left):
    """Return invariants of the loop registers; counts may change late, or be restored after a failed access."""
    gives_back, late, ex_took, wb_took = (seen[name] for name in ("gives_back", "late", "ex_took", "wb_took"))
    owed = {f"lpcount{loop}": Mux(gives_back, late[loop] + ex_took[loop], 0) for loop in range(LOOPS)}
    dropped = ~seen.id_valid & ~seen.has_wb & (ex_took == 0)
    return {
        "addresses are even": ~Cat(seen[name][0] for name in REGISTERS if name not in owed).any(),
        "one loop counts": ~Cat(each.all() for each in (late, ex_took, wb_took)).any(),
        "a failed access gives back": implies(seen.faulted, gives_back),
        "giving back takes two cycles": implies(gives_back, ~seen.has_ex, ~in_wb, seen.faulted | dropped),
        "EX counts late": gives_back | (late == Mux(in_ex & ex.late, ex.backs, 0)),
        "EX took an iteration": gives_back | (ex_took == Mux(in_ex & ~ex.late, ex.backs, 0)),
        "WB took an iteration": gives_back | (wb_took == Mux(in_wb & ~wb.late, wb.backs, 0)),
        **{name: (seen[name] + owed.get(name, 0))[:32] == value for name, value in left.items()},
    }
