"""Cycle costs that the documentation promises, each with code that shows the cost.

The costs hold for a memory that grants at once and answers in the next cycle. The code is measured between two markers;
its cost is the number of cycles minus one per instruction.
"""

from collections.abc import Iterator

from xpulpnn.config import CoreConfig
from xpulpnn.isa.insn import Insn
from xpulpnn.isa.machine import WORD_MASK, XLEN, Cost, cycles, division_cycles
from xpulpnn.isa.retirement import WaitCause
from xpulpnn.isa.table import enabled
from xpulpnn_sim.reference.bare.draw import ARITHMETIC, group_of
from xpulpnn_sim.reference.bare.layout import WINDOW
from xpulpnn_sim.verification.costs.dropped_rows import dropped_rows
from xpulpnn_sim.verification.costs.late_costs import executed, fetched_elsewhere, stalls
from xpulpnn_sim.verification.costs.loop_rows import loop_rows
from xpulpnn_sim.verification.costs.measurement import FREE, CostRow, overhead
from xpulpnn_sim.verification.random.memory_run import memory_operand

_ALIGNED, _CROSSING = 0, 3  # distances of an access from a word boundary
_DIVIDENDS = (0, 1, 0x7FFF_FFFF, 0x8000_0000, WORD_MASK)
_BASE_USED = "use of the incremented base in the next instruction"
_CHAIN = 4  # Dependent instructions in a row

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
    """Return the instruction in assembly, with the given registers, a0 for other registers, and small immediates."""
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


def _arithmetic(config: CoreConfig, rows: tuple[Insn, ...]) -> Iterator[CostRow]:
    """Measure arithmetic instructions whose result the next instruction uses."""
    for insn in rows:
        if group_of(insn) not in ARITHMETIC or insn.divides or insn.requantises:
            continue
        text = _instance(insn)
        group = "dot products, dependent" if insn.uses_dotp else "ALU, mul, mac and SIMD, dependent"
        if insn.multiplies_high or (insn.multiplies_late and config.multiplies_by_dotp):
            high = [] if config.has_whole_products else [Cost.MULTIPLY_HIGH]
            waits = stalls(*high, *executed(config, insn))
            names = "mulh, mulhsu, mulhu" if insn.multiplies_high else "products of half-words"
            yield CostRow(names, insn.mnemonic, text, waits)
            late = [Cost.PRODUCT_USE] if config.multiplies_by_dotp else [*high, *executed(config, insn, used=1)]
            group = f"{'mulh*' if insn.multiplies_high else names}, result used in the next instruction"
            yield CostRow(group, insn.mnemonic, f"{text}\n addi a4, a0, 1", stalls(*late))
        else:
            waits = stalls(*executed(config, insn, _CHAIN, used=_CHAIN - 1))
            yield CostRow(group, f"{insn.mnemonic} {insn.operands}", "\n".join([text] * _CHAIN), waits)


def _division(rows: tuple[Insn, ...]) -> Iterator[CostRow]:
    """Measure divisions by divisors of every size, with several dividends."""
    for op in (row.op for row in rows if row.divides):
        signed = op in ("div", "rem")
        sizes = {1 << place for place in range(XLEN)} | {0, WORD_MASK}
        sizes |= {-(1 << place) & WORD_MASK for place in range(XLEN)} if signed else set()
        for divisor in sorted(sizes):
            for dividend in _DIVIDENDS:
                name, setup = f"0x{dividend:x} by 0x{divisor:x}", f"li a0, 0x{dividend:x}\n li a1, 0x{divisor:x}"
                waits = {WaitCause.MULTICYCLE: division_cycles(divisor, signed=signed) - 1}
                yield CostRow(f"{op}: 3 + places the divisor can move up", name, f"{op} a2, a0, a1", waits, setup)


def _pointer(distance: int) -> str:
    """Return code that points a1 to ``distance`` bytes after the start of the window, and sets a2 to 8."""
    return f"li a1, 0x{WINDOW + distance:x}\n li a2, 8\n addi a3, zero, 5\n mv a4, zero"


def _access(insn: Insn, base: str = "a1") -> tuple[str, int]:
    """Return a load or store in assembly, and the offset that the instruction adds to the base."""
    registers = {"rd": "a3", "rs1": base, "rs2": "a3" if insn.is_store else "a2", "rs3": "a2"}
    text = _instance(insn, **registers)
    memory = memory_operand(insn)
    if memory.increment or memory.value is None:
        return text, 0
    if memory.value.field.name in ("rs2", "rs3"):
        return text, 8
    return text, memory.value.field.step


def _memory(rows: tuple[Insn, ...]) -> Iterator[CostRow]:
    """Measure every load and store, aligned and across a word boundary, and the use of its results."""
    for insn in rows:
        if not (insn.is_load or insn.is_store):
            continue
        name = f"{insn.mnemonic} {insn.operands}"
        text, offset = _access(insn)
        fixed = insn.mnemonic in ("c.lwsp", "c.swsp")
        bytes_accessed = {"b": 1, "h": 2}.get(insn.op.removesuffix("u")[-1], 4)
        yield CostRow("load, store, post-increment", name, text, FREE, setup=_pointer(_ALIGNED - offset))
        if bytes_accessed > 1 and not fixed:
            crossing = _pointer(_CROSSING - offset)
            yield CostRow("misaligned access across words", name, text, stalls(Cost.MISALIGNED_ACCESS), setup=crossing)
        if insn.is_load:
            group, use = "use of a loaded value in the next instruction", f"{text}\n addi a4, a3, 1"
            yield overhead(group, name, use, stalls(Cost.LOAD_USE), _pointer(_ALIGNED - offset))
        if insn.writes_base:
            yield overhead(_BASE_USED, name, f"{text}\n addi a4, a1, 1", FREE, _pointer(_ALIGNED))


def _jump_over(text: str, short: bool, misaligned: bool) -> str:
    """Return code with the jump ``text`` over an instruction, to an aligned or ``misaligned`` target."""
    skipped = "c.nop" if short != misaligned else "addi zero, zero, 0"
    lines = [text.format("77f"), skipped, "77: addi zero, zero, 0"]
    return "\n".join([*lines, *["c.nop"] * misaligned])


def _branches(config: CoreConfig, rows: tuple[Insn, ...]) -> Iterator[CostRow]:
    """Measure branches that are not taken, taken, and taken to a 32-bit instruction off a word boundary."""
    for insn in rows:
        if not insn.is_branch:
            continue
        short = insn.size == 2
        if short:
            yes, no = ((0, 0), (1, 0)) if insn.op == "beq" else ((1, 0), (0, 0))
            text = f"{insn.mnemonic} a0, {{}}"
        elif "simm5" in insn.operands:
            yes, no = _OUTCOMES[insn.op]
            text = f"{insn.mnemonic} a0, {yes[1]}, {{}}"
            yes, no = yes, (yes[1] if insn.op == "bne" else no[1], 0)
        else:
            yes, no = _OUTCOMES[insn.op]
            text = f"{insn.mnemonic} a0, a1, {{}}"
        taken, passed = (f"li a0, {first}\n li a1, {second}" for first, second in (yes, no))
        near, far = _jump_over(text, short, False), _jump_over(text, short, True)
        jump = (Cost.TAKEN_BRANCH, *fetched_elsewhere(config))
        late = stalls(*jump, Cost.MISALIGNED_TARGET)
        yield CostRow("branch, not taken", insn.mnemonic, near, FREE, setup=passed)
        yield CostRow("branch, taken", insn.mnemonic, near, stalls(*jump), setup=taken)
        yield CostRow("branch, taken, misaligned target", insn.mnemonic, far, late, setup=taken)


_ADDRESS = "la a0, 77f"


def _jumps(config: CoreConfig) -> Iterator[CostRow]:
    """Measure jumps, including jumps to an address that the instruction just before computes."""
    costs = (Cost.JUMP, *fetched_elsewhere(config))
    jump, late = stalls(*costs), stalls(*costs, Cost.MISALIGNED_TARGET)
    yield CostRow("jal", "jal", _jump_over("jal ra, {}", False, False), jump)
    yield CostRow("jal", "c.jal", _jump_over("c.jal {}", True, False), jump)
    yield CostRow("jal", "c.j", _jump_over("c.j {}", True, False), jump)
    yield CostRow("jal, misaligned target", "jal", _jump_over("jal ra, {}", False, True), late)
    landing = "addi zero, zero, 0\n 77: addi zero, zero, 0"
    yield CostRow("jalr", "jalr", f"jalr ra, 0(a0)\n {landing}", jump, setup=_ADDRESS)
    for name in ("c.jr", "c.jalr"):
        yield CostRow("jalr", name, f"{name} a0\n c.nop\n 77: addi zero, zero, 0", jump, setup=_ADDRESS)
    loaded = f"li a1, 0x{WINDOW:x}\n sw a0, 0(a1)"
    producers = (
        ("after an ALU instruction wrote rs1", "addi a0, a0, 0", "", (Cost.JUMP_REGISTER,)),
        ("after a load wrote rs1", "lw a0, 0(a1)", loaded, (Cost.LOAD_USE, Cost.JUMP_REGISTER)),
    )
    for name, producer, preparation, extra in producers:
        code, setup = f"{producer}\n jalr ra, 0(a0)\n {landing}", f"{_ADDRESS}\n {preparation}"
        yield CostRow(f"jalr {name}", "jalr", code, stalls(*costs, *extra), setup)


def _mac_load(config: CoreConfig, rows: tuple[Insn, ...]) -> Iterator[CostRow]:
    """Measure Mac&Load instructions alone, and followed by an instruction that uses one of their results."""
    setup = f"li a1, 0x{WINDOW:x}\n li a2, 0x{WINDOW + 64:x}\n mv a3, zero\n mv a4, zero\n mv a5, zero"
    forms = (
        ("nn", config.mac_load_nn, "pv.mlsdotsup.b {}, ({}!), 16", "pv.mlsdotsup.b a4, (a2!), 18"),
        ("C&U", config.mac_load_cu, "pv.cusdotusp.b.0 {}, ({}!), a3", "pv.cusdotusp.b.1 a4, (a2!), a3"),
    )
    for name, form, other in ((name, form, other) for name, present, form, other in forms if present):
        once = form.format("a4", "a1")
        crossing = setup.replace("a1, 0x", "a1, 3 + 0x")
        yield CostRow("Mac&Load, misaligned address", name, once, stalls(Cost.MISALIGNED_ACCESS), setup=crossing)
        late = stalls(Cost.MAC_LOAD_USE)
        used, base = (stalls(Cost.LATE_USE), FREE) if config.late_results else (FREE, late)
        uses = (
            ("rd used by an ALU instruction", f"{once}\n addi a5, a4, 1", used),
            ("rd used by a Mac&Load of other entries", f"{once}\n {other}", used),
            ("rs1 used", f"{once}\n addi a5, a1, 1", base),
            ("reloaded entry used", f"{once}\n {form.format('a5', 'a2')}", late),
        )
        for use, code, waits in uses:
            yield overhead(f"Mac&Load, {use} in the next instruction", name, code, waits, setup)
    for insn in rows:
        if insn.is_mac_load:
            selector = "24" if insn.reloads_other else "16"
            registers = {"rd": "a4", "rs1": "a1", "rs2": "a3", "nnimm5": selector}
            name = f"{insn.mnemonic} {selector}" if insn.is_nn_form else insn.mnemonic
            yield CostRow("Mac&Load", name, _instance(insn, **registers), FREE, setup=setup)
    if config.mac_load_nn:
        plain = "pv.mlsdotsup.b a4, (a1!), 0"
        waits = stalls(*[Cost.LATE_USE] * (_CHAIN - 1) * config.late_results)
        yield CostRow("Mac&Load", "nn without a load", "\n".join([plain] * _CHAIN), waits, setup=setup)
    if config.mac_load_dot:
        code = "lw a4, 0(a1)\n pv.mldotsup.b a4, (a2!), 16"
        group = "pv.mldot*, its register loaded by the instruction before"
        yield overhead(group, "nn", code, stalls(Cost.LOAD_USE), setup)
    if config.mac_load_cross:
        cross = "pv.mlsdotsup.b a4, (a1!), 24"
        for use, selector, waits in (
            ("reloaded entry used", 1, stalls(Cost.MAC_LOAD_USE)),
            ("entry used that it has used itself", 0, FREE),
        ):
            code = f"{cross}\n pv.mlsdotsup.b a5, (a2!), {selector}"
            group = f"Mac&Load, {use} in the next instruction"
            yield overhead(group, "nn, other activation", code, waits, setup)


_BLOCK_LOADS = (5, 8, 9, 0, 1, 2, 3, 4)
"""Entries of the NN-RF in the order in which the inner loop for four channels and four pixels loads them."""
_ENTRY_READERS = {
    0: "pv.mlduosup.b a6, 0, 0",
    1: "pv.mldotsup.b a6, (a2!), 1",
    2: "pv.mlduosup.b a6, 0, 0",
    5: "pv.mlduosup.b a6, 3, 1",
    8: "pv.mlduosup.b a6, 0, 1",
    9: "pv.mlduosup.b a6, (a2!), 0, 1, 9",
}
"""An instruction that multiplies the entry, by number of the entry in the NN-RF."""


def _pairs(config: CoreConfig) -> Iterator[CostRow]:
    """Measure the Mac&Load with two products, its effect on the next instruction, and the inner loop of a kernel."""
    if not config.mac_load_pair:
        return
    zeros = "\n ".join(f"mv a{number}, zero" for number in range(3, 8))
    setup = f"li a1, 0x{WINDOW:x}\n li a2, 0x{WINDOW + 64:x}\n {zeros}"
    once, name, late = "pv.mlsduosup.b a4, (a1!), 0, 0, 8", "two products", stalls(Cost.PAIR_USE)
    crossing = setup.replace("a1, 0x", "a1, 3 + 0x")
    yield CostRow("Mac&Load, misaligned address", name, once, stalls(Cost.MISALIGNED_ACCESS), setup=crossing)
    for use, code, waits in (
        ("first sum used", "addi a6, a4, 1", late),
        ("second sum used", "addi a6, a5, 1", late),
        ("second sum stored", "sw a5, 0(a2)", late),
        ("sums added to", "pv.mlsduosup.b a4, (a2!), 1, 0, 3", late),
        ("sums replaced", "pv.mlduosup.b a4, (a2!), 1, 0, 3", FREE),
        ("other sums added to", "pv.mlsduosup.b a6, (a1!), 0, 0, 3", FREE),
        ("rs1 used", "addi a6, a1, 1", FREE),
    ):
        yield overhead(
            f"Mac&Load of two products, {use} in the next instruction", name, f"{once}\n {code}", waits, setup
        )
    later = f"{once}\n addi zero, zero, 0\n addi a6, a5, 1"
    yield overhead("Mac&Load of two products, sum used one instruction later", name, later, FREE, setup)
    for entry, reader in _ENTRY_READERS.items():
        code = f"pv.mlsduosup.b a4, (a1!), 0, 0, {entry}\n {reader}"
        group = "Mac&Load of two products, loaded entry used in the next instruction"
        yield overhead(group, f"entry {entry}", code, late, setup)
    reloaded = "pv.mlsdotsup.b a4, (a1!), 16\n pv.mlduosup.b a6, 0, 0"
    group = "Mac&Load, reloaded entry used in the next instruction"
    yield overhead(group, f"nn, by {name}", reloaded, stalls(Cost.MAC_LOAD_USE), setup)
    for number in (4, 5):
        code = f"lw a{number}, 0(a1)\n pv.mlsduosup.b a4, 0, 0"
        yield overhead(
            "Mac&Load of two products, old sum loaded by the instruction before",
            f"a{number}",
            code,
            stalls(Cost.LOAD_USE),
            setup,
        )
    turn = [
        f"pv.mlsduosup.b a{2 + 2 * (slot % 3)}, (a{2 <= entry <= 5:d}!), {slot % 4}, {slot // 4}, {entry}"
        for slot, entry in enumerate(_BLOCK_LOADS)
    ]
    body = "\n ".join([*turn[:-1], f"77: {turn[-1]}"])
    block = setup.replace("li a2", "li a0")
    yield overhead(
        "Mac&Load of two products, loop of a block: overhead",
        "5 turns",
        f"lp.setupi 0, 5, 77f\n {body}",
        stalls(*fetched_elsewhere(config, 4)),
        block,
    )


def _quantisation(rows: tuple[Insn, ...]) -> Iterator[CostRow]:
    setup = f"li a1, 0x{WINDOW:x}"
    for insn in rows:
        if insn.op == "pv.qnt":
            text = f"{_instance(insn, rd='a2', rs2='a1')}\n addi a3, a2, 1"
            waits = {WaitCause.MULTICYCLE: cycles(insn).most - 1}
            yield CostRow(f"{insn.mnemonic}, its result used at once", insn.mnemonic, text, waits, setup=setup)


def _requantisation(config: CoreConfig, rows: tuple[Insn, ...]) -> Iterator[CostRow]:
    """Measure pv.rqld and pv.rq*: alone, and with a result that one of the next two instructions uses."""
    setup = f"li a1, 0x{WINDOW:x}\n li a2, 7\n mv a3, zero\n mv a4, zero\n mv a5, zero"
    for insn in rows:
        if insn.requantises:
            texts = {rd: _instance(insn, rd=rd, rs1="a2", rs2="a0", lane="1") for rd in ("a3", "a4", "a5")}
            name = insn.mnemonic
            several = stalls(*executed(config, insn, len(texts)))
            yield CostRow("pv.rq* of several registers", name, "\n".join(texts.values()), several, setup)
            exact, nop = [Cost.EXACT_USE] * insn.is_exact, "addi a4, zero, 1"
            for group, code, costs in (
                ("result used in the next instruction", f"{texts['a3']}\n addi a4, a3, 1", [Cost.REQUANTISE_USE]),
                ("result used one instruction later", f"{texts['a3']}\n {texts['a4']}\n addi a5, a3, 1", []),
                ("same register as the one before", "\n".join([texts["a3"]] * 2), [Cost.REQUANTISE_USE]),
                ("behind pv.rqld", f"pv.rqld 0, (a1!)\n {texts['a3']}", [Cost.PARAMETER_USE]),
                ("one instruction behind pv.rqld", f"pv.rqld 1, (a1!)\n {nop}\n {texts['a3']}", exact),
                ("rs1 written in the instruction before", f"addi a2, zero, 9\n {texts['a3']}", exact),
                ("rs1 written one instruction before that", f"addi a2, zero, 9\n {nop}\n {texts['a3']}", []),
                ("rs1 loaded one instruction before that", f"lw a2, 0(a1)\n {nop}\n {texts['a3']}", exact),
            ):
                waits = stalls(*costs, *executed(config, insn, code.count(name)))
                yield overhead(f"pv.rq*, {group}", name, code, waits, setup)
        if insn.loads_parameter:
            crossing = setup.replace("a1, 0x", "a1, 3 + 0x")
            group, once = "load, store, post-increment", _instance(insn, rs1="a1")
            yield CostRow(group, insn.mnemonic, once, FREE, setup)
            group = "misaligned access across words"
            yield CostRow(group, insn.mnemonic, once, stalls(Cost.MISALIGNED_ACCESS), crossing)
            yield overhead(_BASE_USED, insn.mnemonic, f"{once}\n addi a5, a1, 1", FREE, setup)


def _system(config: CoreConfig) -> Iterator[CostRow]:
    nop, late = "addi zero, zero, 0", fetched_elsewhere(config)
    yield CostRow("CSR access", "csrrs mscratch", f"csrrs a0, mscratch, zero\n {nop}", FREE)
    yield CostRow("CSR access", "csrrw mscratch", f"csrrw a0, mscratch, a0\n {nop}", stalls(Cost.CSR_WRITE))
    yield CostRow("CSR access", "csrrsi mstatus", f"csrrsi a0, mstatus, 0\n {nop}", FREE)
    yield CostRow("fence, fence.i", "fence", "fence", FREE)
    # the marker before it is still in EX, then it has its own redirect
    waits = {**stalls(Cost.FENCE_I, *late), WaitCause.SYNC: 1 + Cost.FENCE_I.cycles}
    yield CostRow("fence, fence.i", "fence.i", "fence.i", waits)
    waits, enabled_lines = {**stalls(Cost.WFI), WaitCause.SYNC: 1}, "li a0, -1\n csrrw zero, mie, a0"
    yield CostRow("wfi, an interrupt waits", "wfi", "wfi", waits, enabled_lines)
    landing = f"{nop}\n 77: {nop}"
    yield CostRow(
        "mret", "mret", f"mret\n {landing}", stalls(Cost.TRAP, *late), setup=f"{_ADDRESS}\n csrrw zero, mepc, a0"
    )


def cost_rows(config: CoreConfig) -> list[CostRow]:
    rows = enabled(config.extensions, config.widths)
    return [
        *_arithmetic(config, rows),
        *_division(rows),
        *_memory(rows),
        *_branches(config, rows),
        *_jumps(config),
        *dropped_rows(config),
        *(loop_rows(config) if config.xpulpv2 else ()),
        *_mac_load(config, rows),
        *_pairs(config),
        *_quantisation(rows),
        *_requantisation(config, rows),
        *_system(config),
    ]
