"""Cycle costs that the documentation promises, each with code that shows the cost.

The costs hold for a memory that grants at once and answers in the next cycle. The code is measured between two markers;
its cost is the number of cycles minus one per instruction.
"""

from xpulpnn.config import CoreConfig
from xpulpnn.isa.insn import Insn
from xpulpnn.isa.machine import HALF_BYTES, WORD_MASK, XLEN, cycles, division_cycles
from xpulpnn.isa.table import enabled
from xpulpnn_sim.reference.bare.draw import ARITHMETIC, group_of
from xpulpnn_sim.reference.bare.layout import WINDOW
from xpulpnn_sim.verification.costs.loop_rows import loop_rows
from xpulpnn_sim.verification.costs.measurement import CostRow, CostTable
from xpulpnn_sim.verification.random.memory_run import memory_operand

_DIVIDENDS = (0, 1, 0x7FFF_FFFF, 0x8000_0000, WORD_MASK)
_BASE_USED = "+ use of the incremented base in the next instruction"
_CROSSING = "misaligned access across words"
_NOP = "addi zero, zero, 0"
_CHAIN = 4  # dependent instructions in a row

_OUTCOMES: dict[str, tuple[tuple[int, int], tuple[int, int]]] = {
    "beq": ((1, 1), (1, 2)),
    "bne": ((1, 2), (1, 1)),
    "blt": ((1, 2), (2, 1)),
    "bltu": ((1, 2), (2, 1)),
    "bge": ((2, 1), (1, 2)),
    "bgeu": ((2, 1), (1, 2)),
}
"""Operands with which a branch is taken, and operands with which the branch is not taken."""


def _instance(insn: Insn, **registers: str) -> str:
    """Return the instruction in assembly with the given registers, a0 in all other places, and small immediates."""
    registers = dict.fromkeys(("rd", "rs1", "rs2", "rs3"), "a0") | registers
    operands: list[str] = []
    for operand in insn.forms:
        text = ""
        if operand.value is not None:
            field = operand.value.field
            text = registers.get(field.name) or str(field.step if operand.value.accepts(field.step) else field.low)
        if operand.is_memory:
            base = registers["rs1"] if operand.fixed_base is None else "sp"
            text += f"({base}{'!' if operand.increment else ''})"
        operands.append(text)
    return f"{insn.mnemonic} {', '.join(operands)}".strip()


def _late_result_costs(insn: Insn, times: int = 1, used: int = 0) -> str:
    """Return the costs of ``times`` late results, of which ``used`` are used by the next instruction."""
    return f"{times * insn.has_late_step}*LATE_STEP {used * (not insn.is_early)}*LATE_USE"


def _arithmetic(costs: CostTable, insn: Insn) -> None:
    config, text = costs.config, _instance(insn)
    if not (insn.multiplies_high or (insn.multiplies_late and config.multiplies_by_dotp)):
        group = "dot products, dependent" if insn.uses_dotp else "ALU, mul, mac and SIMD, dependent"
        code = "; ".join([text] * _CHAIN)
        costs.add(group, f"{insn.mnemonic} {insn.operands}", code, _late_result_costs(insn, _CHAIN, _CHAIN - 1))
        return
    high = "" if config.has_whole_products else "MULTIPLY_HIGH "
    names = "mulh, mulhsu, mulhu" if insn.multiplies_high else "products of half-words"
    costs.add(names, insn.mnemonic, text, high + _late_result_costs(insn))
    group = f"{'mulh*' if insn.multiplies_high else names}, result used in the next instruction"
    used = "PRODUCT_USE" if config.multiplies_by_dotp else high + _late_result_costs(insn, used=1)
    costs.add(group, insn.mnemonic, f"{text}; addi a4, a0, 1", used)


def _division(costs: CostTable, op: str) -> None:
    signed = op in ("div", "rem")
    sizes = {1 << place for place in range(XLEN)} | {0, WORD_MASK}
    sizes |= {-(1 << place) & WORD_MASK for place in range(XLEN)} if signed else set()
    for divisor in sorted(sizes):
        waits = f"{division_cycles(divisor, signed=signed) - 1}*MULTICYCLE"
        for dividend in _DIVIDENDS:
            name, setup = f"0x{dividend:x} by 0x{divisor:x}", f"li a0, 0x{dividend:x}; li a1, 0x{divisor:x}"
            costs.add(f"{op}: 3 + places the divisor can move up", name, f"{op} a2, a0, a1", waits, setup)


def _memory(costs: CostTable, insn: Insn) -> None:
    """Measure a load or store, aligned and across a word boundary, and the use of its results."""
    text = _instance(insn, rd="a3", rs1="a1", rs2="a3" if insn.is_store else "a2", rs3="a2")
    name, offset, memory = f"{insn.mnemonic} {insn.operands}", 0, memory_operand(insn)
    if memory.value is not None and not memory.increment:
        offset = 8 if memory.value.field.name in ("rs2", "rs3") else memory.value.field.step

    def pointer(at: int) -> str:
        return f"li a1, 0x{WINDOW + at:x}; li a2, 8; addi a3, zero, 5; mv a4, zero"

    costs.add("load, store, post-increment", name, text, "", pointer(-offset))
    if not insn.is_byte_access and insn.mnemonic not in ("c.lwsp", "c.swsp"):
        costs.add(_CROSSING, name, text, "MISALIGNED_ACCESS", pointer(3 - offset))
    if insn.is_load:
        group = "+ use of a loaded value in the next instruction"
        costs.add(group, name, f"{text}; addi a4, a3, 1", "LOAD_USE", pointer(-offset))
    if insn.writes_base:
        costs.add(_BASE_USED, name, f"{text}; addi a4, a1, 1", "", pointer(0))


def _jump_over(text: str, *, short: bool = False, misaligned: bool = False) -> str:
    """Return code with the jump ``text`` over an instruction, to an aligned or ``misaligned`` target."""
    return f"{text}; {'c.nop' if short != misaligned else _NOP}; 77: {_NOP}{'; c.nop' * misaligned}"


def _branch(costs: CostTable, insn: Insn) -> None:
    short = insn.size == HALF_BYTES
    if short:
        yes, no = ((0, 0), (1, 0)) if insn.op == "beq" else ((1, 0), (0, 0))
        text = f"{insn.mnemonic} a0, 77f"
    elif "simm5" in insn.operands:
        yes, no = _OUTCOMES[insn.op]
        text = f"{insn.mnemonic} a0, {yes[1]}, 77f"
        no = yes[1] if insn.op == "bne" else no[1], 0
    else:
        yes, no = _OUTCOMES[insn.op]
        text = f"{insn.mnemonic} a0, a1, 77f"
    taken, passed = (f"li a0, {first}; li a1, {second}" for first, second in (yes, no))
    near, far = (_jump_over(text, short=short, misaligned=misaligned) for misaligned in (False, True))
    jump = "TAKEN_BRANCH LATE_FETCH"
    costs.add("branch, not taken", insn.mnemonic, near, "", passed)
    costs.add("branch, taken", insn.mnemonic, near, jump, taken)
    costs.add("branch, taken, misaligned target", insn.mnemonic, far, f"{jump} MISALIGNED_TARGET", taken)


_LANDING = f"{_NOP}; 77: {_NOP}"
_WINDOW = f"li a1, 0x{WINDOW:x}"
_JUMPS = f"""
== jal => JUMP LATE_FETCH
jal | {_jump_over("jal ra, 77f")}
c.jal | {_jump_over("c.jal 77f", short=True)}
c.j | {_jump_over("c.j 77f", short=True)}
== jal, misaligned target => JUMP LATE_FETCH MISALIGNED_TARGET
jal | {_jump_over("jal ra, 77f", misaligned=True)}
@ la a0, 77f
== jalr => JUMP LATE_FETCH
jalr | jalr ra, 0(a0); {_LANDING}
c.jr | c.jr a0; c.nop; 77: {_NOP}
c.jalr | c.jalr a0; c.nop; 77: {_NOP}
== jalr after an ALU instruction wrote rs1 => JUMP LATE_FETCH JUMP_REGISTER
jalr | addi a0, a0, 0; jalr ra, 0(a0); {_LANDING}
@ la a0, 77f; {_WINDOW}; sw a0, 0(a1)
== jalr after a load wrote rs1 => JUMP LATE_FETCH LOAD_USE JUMP_REGISTER
jalr | lw a0, 0(a1); jalr ra, 0(a0); {_LANDING}
@ {_WINDOW}
== + taken branch over what waits for a loaded value: overhead => TAKEN_BRANCH LATE_FETCH
jalr | lw a0, 0(a1); beq zero, zero, 77f; jalr zero, 0(a0); 77: {_NOP}
== + taken branch over what waits for a loaded value: overhead => TAKEN_BRANCH LATE_FETCH [requantise_exact]
pv.rqxu.b | lw a0, 0(a1); beq zero, zero, 77f; pv.rqxu.b a3, a0, a2, 1; 77: {_NOP}
== + taken branch over a jump: overhead => TAKEN_BRANCH LATE_FETCH
jal | beq zero, zero, 77f; jal zero, 77f; 77: {_NOP}
jalr | beq zero, zero, 77f; jalr zero, 0(a1); 77: {_NOP}
"""


def _pointers(*zeroed: int, a1: str = f"0x{WINDOW:x}") -> str:
    return "; ".join([f"li a1, {a1}", f"li a2, 0x{WINDOW + 64:x}", *(f"mv a{number}, zero" for number in zeroed)])


_ACROSS_WORDS = f"3 + 0x{WINDOW:x}"
_FORMS = {
    "nn": ("pv.mlsdotsup.b {}, ({}!), 16", "pv.mlsdotsup.b a4, (a2!), 18"),
    "C&U": ("pv.cusdotusp.b.0 {}, ({}!), a3", "pv.cusdotusp.b.1 a4, (a2!), a3"),
}
"""Mac&Load of each form, with result and base left open, and one that uses other entries."""
_NN_FORMS = f"""
@ {_pointers(3, 4, 5)}
== Mac&Load => {_CHAIN - 1}*LATE_USE [mac_load_nn]
nn without a load | {"; ".join(["pv.mlsdotsup.b a4, (a1!), 0"] * _CHAIN)}
== + pv.mldot*, its register loaded by the instruction before => LOAD_USE [mac_load_dot]
nn | lw a4, 0(a1); pv.mldotsup.b a4, (a2!), 16
== + Mac&Load, reloaded entry used in the next instruction => MAC_LOAD_USE [mac_load_cross]
nn, other activation | pv.mlsdotsup.b a4, (a1!), 24; pv.mlsdotsup.b a5, (a2!), 1
== + Mac&Load, entry used that it has used itself in the next instruction [mac_load_cross]
nn, other activation | pv.mlsdotsup.b a4, (a1!), 24; pv.mlsdotsup.b a5, (a2!), 0
"""
_USES = """
@ {across}
== Mac&Load, misaligned address => MISALIGNED_ACCESS
{name} | {once}
@ {setup}
== + Mac&Load, rd used by an ALU instruction in the next instruction => LATE_USE
{name} | {once}; addi a5, a4, 1
== + Mac&Load, rd used by a Mac&Load of other entries in the next instruction => LATE_USE
{name} | {once}; {other}
== + Mac&Load, rs1 used in the next instruction => ~MAC_LOAD_USE
{name} | {once}; addi a5, a1, 1
== + Mac&Load, reloaded entry used in the next instruction => MAC_LOAD_USE
{name} | {once}; {again}
"""


def _mac_load(costs: CostTable, rows: tuple[Insn, ...]) -> None:
    """Measure Mac&Load instructions alone, and followed by an instruction that uses one of their results."""
    setup = _pointers(3, 4, 5)
    present = costs.config.mac_load_nn, costs.config.mac_load_cu
    for (name, (form, other)), is_present in zip(_FORMS.items(), present, strict=True):
        if is_present:
            texts = {"name": name, "once": form.format("a4", "a1"), "again": form.format("a5", "a2"), "other": other}
            costs.table(_USES.format(setup=setup, across=_pointers(3, 4, 5, a1=_ACROSS_WORDS), **texts))
    for insn in (row for row in rows if row.is_mac_load):
        selector = "24" if insn.reloads_other else "16"
        text = _instance(insn, rd="a4", rs1="a1", rs2="a3", nnimm5=selector)
        costs.add("Mac&Load", f"{insn.mnemonic} {selector}" if insn.is_nn_form else insn.mnemonic, text, "", setup)
    costs.table(_NN_FORMS)


_ONCE = "pv.mlsduosup.b a4, (a1!), 0, 0, 8"
*_BLOCK, _BLOCK_END = [
    f"pv.mlsduosup.b a{2 + 2 * (slot % 3)}, (a{2 <= entry <= 5:d}!), {slot % 4}, {slot // 4}, {entry}"
    for slot, entry in enumerate((5, 8, 9, 0, 1, 2, 3, 4))
]
"""The inner loop of a kernel for four channels and four pixels, which loads all entries."""
_PAIRS = f"""
@ {_pointers(3, 4, 5, 6, 7, a1=_ACROSS_WORDS)}
== Mac&Load, misaligned address => MISALIGNED_ACCESS
two products | {_ONCE}
@ {_pointers(3, 4, 5, 6, 7)}
== + Mac&Load of two products, first sum used in the next instruction => PAIR_USE
two products | {_ONCE}; addi a6, a4, 1
== + Mac&Load of two products, second sum used in the next instruction => PAIR_USE
two products | {_ONCE}; addi a6, a5, 1
== + Mac&Load of two products, second sum stored in the next instruction => PAIR_USE
two products | {_ONCE}; sw a5, 0(a2)
== + Mac&Load of two products, sums added to in the next instruction => PAIR_USE
two products | {_ONCE}; pv.mlsduosup.b a4, (a2!), 1, 0, 3
== + Mac&Load of two products, sums replaced in the next instruction
two products | {_ONCE}; pv.mlduosup.b a4, (a2!), 1, 0, 3
== + Mac&Load of two products, other sums added to in the next instruction
two products | {_ONCE}; pv.mlsduosup.b a6, (a1!), 0, 0, 3
== + Mac&Load of two products, rs1 used in the next instruction
two products | {_ONCE}; addi a6, a1, 1
== + Mac&Load of two products, sum used one instruction later
two products | {_ONCE}; {_NOP}; addi a6, a5, 1
== + Mac&Load of two products, loaded entry used in the next instruction => PAIR_USE
entry 0 | pv.mlsduosup.b a4, (a1!), 0, 0, 0; pv.mlduosup.b a6, 0, 0
entry 1 | pv.mlsduosup.b a4, (a1!), 0, 0, 1; pv.mldotsup.b a6, (a2!), 1
entry 2 | pv.mlsduosup.b a4, (a1!), 0, 0, 2; pv.mlduosup.b a6, 0, 0
entry 5 | pv.mlsduosup.b a4, (a1!), 0, 0, 5; pv.mlduosup.b a6, 3, 1
entry 8 | pv.mlsduosup.b a4, (a1!), 0, 0, 8; pv.mlduosup.b a6, 0, 1
entry 9 | pv.mlsduosup.b a4, (a1!), 0, 0, 9; pv.mlduosup.b a6, (a2!), 0, 1, 9
== + Mac&Load, reloaded entry used in the next instruction => MAC_LOAD_USE
nn, by two products | pv.mlsdotsup.b a4, (a1!), 16; pv.mlduosup.b a6, 0, 0
== + Mac&Load of two products, old sum loaded by the instruction before => LOAD_USE
a4 | lw a4, 0(a1); pv.mlsduosup.b a4, 0, 0
a5 | lw a5, 0(a1); pv.mlsduosup.b a4, 0, 0
@ {_pointers(3, 4, 5, 6, 7).replace("li a2", "li a0")}
== + Mac&Load of two products, loop of a block: overhead => 4*LATE_FETCH
5 turns | lp.setupi 0, 5, 77f; {"; ".join(_BLOCK)}; 77: {_BLOCK_END}
"""


def _quantisation(costs: CostTable, insn: Insn) -> None:
    text = f"{_instance(insn, rd='a2', rs2='a1')}; addi a3, a2, 1"
    waits = f"{cycles(insn).most - 1}*MULTICYCLE"
    costs.add(f"{insn.mnemonic}, its result used at once", insn.mnemonic, text, waits, f"li a1, 0x{WINDOW:x}")


_REQUANTISED = (
    ("pv.rq* of several registers", "{a3}; {a4}; {a5}", ""),
    ("+ pv.rq*, result used in the next instruction", "{a3}; addi a4, a3, 1", "REQUANTISE_USE"),
    ("+ pv.rq*, result used one instruction later", "{a3}; {a4}; addi a5, a3, 1", ""),
    ("+ pv.rq*, same register as the one before", "{a3}; {a3}", "REQUANTISE_USE"),
    ("+ pv.rq*, behind pv.rqld", "pv.rqld 0, (a1!); {a3}", "PARAMETER_USE"),
    ("+ pv.rq*, one instruction behind pv.rqld", "pv.rqld 1, (a1!); addi a4, zero, 1; {a3}", "{exact}*EXACT_USE"),
    ("+ pv.rq*, rs1 written in the instruction before", "addi a2, zero, 9; {a3}", "{exact}*EXACT_USE"),
    ("+ pv.rq*, rs1 written one instruction before that", "addi a2, zero, 9; addi a4, zero, 1; {a3}", ""),
    ("+ pv.rq*, rs1 loaded one instruction before that", "lw a2, 0(a1); addi a4, zero, 1; {a3}", "{exact}*EXACT_USE"),
)
"""Group, code around a pv.rq* that writes a3, a4 or a5, and costs, some of them only for a pv.rqx*."""


def _requantisation(costs: CostTable, insn: Insn) -> None:
    """Measure a pv.rq*: alone, and with a result that one of the next two instructions uses."""
    texts = {rd: _instance(insn, rd=rd, rs1="a2", rs2="a0", lane="1") for rd in ("a3", "a4", "a5")}
    for group, code, waits in _REQUANTISED:
        text = code.format(**texts)
        waits = f"{waits.format(exact=int(insn.is_exact))} {_late_result_costs(insn, text.count(insn.mnemonic))}"
        costs.add(group, insn.mnemonic, text, waits, _REQUANTISATION)


_REQUANTISATION = f"li a1, 0x{WINDOW:x}; li a2, 7; mv a3, zero; mv a4, zero; mv a5, zero"


def _parameters(costs: CostTable, insn: Insn) -> None:
    once, across = _instance(insn, rs1="a1"), _REQUANTISATION.replace("a1, 0x", "a1, 3 + 0x")
    costs.add("load, store, post-increment", insn.mnemonic, once, "", _REQUANTISATION)
    costs.add(_CROSSING, insn.mnemonic, once, "MISALIGNED_ACCESS", across)
    costs.add(_BASE_USED, insn.mnemonic, f"{once}; addi a5, a1, 1", "", _REQUANTISATION)


# fence.i and wfi wait for the marker before them, which is still in EX
_SYSTEM = f"""
== CSR access
csrrs mscratch | csrrs a0, mscratch, zero; {_NOP}
== CSR access => CSR_WRITE
csrrw mscratch | csrrw a0, mscratch, a0; {_NOP}
== CSR access
csrrsi mstatus | csrrsi a0, mstatus, 0; {_NOP}
== fence, fence.i
fence | fence
== fence, fence.i => FENCE_I LATE_FETCH SYNC
fence.i | fence.i
@ li a0, -1; csrrw zero, mie, a0
== wfi, an interrupt waits => WFI SYNC
wfi | wfi
@ la a0, 77f; csrrw zero, mepc, a0
== mret => TRAP LATE_FETCH
mret | mret; {_LANDING}
"""


def cost_rows(config: CoreConfig) -> list[CostRow]:
    costs, rows = CostTable(config), enabled(config.extensions, config.widths)
    for insn in rows:
        if group_of(insn) in ARITHMETIC and not (insn.divides or insn.requantises):
            _arithmetic(costs, insn)
    for insn in (row for row in rows if row.divides):
        _division(costs, insn.op)
    for insn in (row for row in rows if row.is_load or row.is_store):
        _memory(costs, insn)
    for insn in (row for row in rows if row.is_branch):
        _branch(costs, insn)
    costs.table(_JUMPS)
    if config.xpulpv2:
        loop_rows(costs)
    _mac_load(costs, rows)
    if config.mac_load_pair:
        costs.table(_PAIRS)
    for insn in (row for row in rows if row.op == "pv.qnt"):
        _quantisation(costs, insn)
    for insn in (row for row in rows if row.requantises or row.loads_parameter):
        (_requantisation if insn.requantises else _parameters)(costs, insn)
    costs.table(_SYSTEM)
    return costs.rows
