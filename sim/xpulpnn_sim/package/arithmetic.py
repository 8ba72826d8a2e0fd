"""Checks of every instruction that computes or accesses memory, one by one."""

from collections.abc import Iterator

from xpulpnn.isa.insn import Insn
from xpulpnn.isa.machine import FIRST_WEIGHT, HALF_BYTES, NNRF_ENTRIES, WORD_BYTES
from xpulpnn_sim.package.checks import SCRATCH, Checks
from xpulpnn_sim.package.memory_map import places
from xpulpnn_sim.package.reference import dot_product, low, result, signed
from xpulpnn_sw.disasm import render

_NOT_COMPUTED = frozenset({"auipc", "fence", "fence.i", "mret", "wfi", "ecall", "ebreak", "csrrw", "csrrs", "csrrc"})
_LOADS = {"lb": (1, True), "lh": (2, True), "lw": (4, False), "lbu": (1, False), "lhu": (2, False), "elw": (4, False)}
_STORES = {"sb": 1, "sh": 2, "sw": 4}
_A, _B, _D = 10, 11, 12
"""Registers a0, a1 and a2: rs1, rs2 and rd of the instructions checked."""

_SEARCHES = 6
"""Executions of each pv.qnt."""

_BOTH_RELOADS = 0b11
_RELOAD_LSB, _WEIGHT_LSB = 3, 1


def computes(insn: Insn) -> bool:
    """Whether the instruction does nothing but compute a register from registers."""
    elsewhere = insn.is_load or insn.is_store or insn.is_branch or insn.is_jump or insn.uses_nnrf
    return not elsewhere and insn.op not in _NOT_COMPUTED and not insn.op.startswith(("lp.", "pv.qnt"))


def _rows(checks: Checks) -> Iterator[Insn]:
    return (insn for insn in checks.insns if insn.size == WORD_BYTES and not insn.alias)


def _immediates(checks: Checks, insn: Insn) -> dict[str, int]:
    """Random values of the operands that are no registers."""
    registers = {"rd": _D, "rs1": _A, "rs2": _B, "rs3": _D}
    return {
        token.field.name: registers[token.field.name]
        if token.field.name in registers
        else checks.random.randrange(token.field.low, token.field.high + 1, token.field.step)
        for token in insn.tokens
    }


def computations(checks: Checks) -> None:
    """One check of every row that computes."""
    checks.title("every instruction that computes")
    for insn in filter(computes, _rows(checks)):
        values = _immediates(checks, insn)
        a, b, d = checks.word(), checks.word(), checks.word()
        text = render(insn, insn.encode(**values))
        checks.code(f"    li a0, {a}; li a1, {b}; li a2, {d}\n    {text}")
        checks.expect("a2", result(insn, values, a, b, d), f"{text} with a0 {a:08x}, a1 {b:08x}, a2 {d:08x}")


def _addressing(checks: Checks, insn: Insn, values: dict[str, int], room: int, size: int) -> tuple[int, int, int]:
    """Base and offset such that the access lies within ``room`` bytes, and the byte accessed."""
    place = checks.random.randrange(room - size + 1)
    token = next((name for name in ("imm12", "stimm12") if name in values), None)
    offset = checks.random.randrange(-64, 64) if token is None else values[token]
    return (place if insn.writes_base else place - offset), offset, place


def loads(checks: Checks) -> None:
    """Every load from a random address, aligned or not."""
    checks.title("loads")
    for insn in (insn for insn in _rows(checks) if insn.is_load):
        size, is_signed = _LOADS[insn.op]
        values = _immediates(checks, insn)
        base, offset, place = _addressing(checks, insn, values, len(checks.operands), size)
        loaded = int.from_bytes(checks.operands[place : place + size], "little")
        expected = signed(loaded, 8 * size) if is_signed else loaded
        text = render(insn, insn.encode(**values))
        checks.code(f"    li a0, operands{base:+d}; li a1, {offset}\n    {text}")
        checks.expect("a2", expected, f"{text} of byte {place}")
        if insn.writes_base:
            checks.expect("a0", places()["operands"] + base + offset, f"base of {text}")


def stores(checks: Checks) -> None:
    """Every store to a random address, aligned or not; then the memory written."""
    checks.title("stores")
    memory = bytearray(SCRATCH)
    for insn in (insn for insn in _rows(checks) if insn.is_store):
        size = _STORES[insn.op]
        values = _immediates(checks, insn)
        base, offset, place = _addressing(checks, insn, values, SCRATCH, size)
        word = checks.random.getrandbits(32)
        memory[place : place + size] = low(word, 8 * size).to_bytes(size, "little")
        text = render(insn, insn.encode(**values))
        checks.code(f"    li a0, scratch{base:+d}; li a1, {word}; li a2, {offset}\n    {text}")
        if insn.writes_base:
            checks.expect("a0", places()["scratch"] + base + offset, f"base of {text}")
    checks.code("    li a0, scratch")
    for place in range(0, SCRATCH, WORD_BYTES):
        checks.code(f"    lw a1, {place}(a0)")
        checks.expect("a1", int.from_bytes(memory[place : place + WORD_BYTES], "little"), f"scratch + {place}")


def mac_loads(checks: Checks) -> None:
    """Every Mac&Load, with every selector of the NN-RF and every kind of reload among them."""
    rows = [insn for insn in _rows(checks) if insn.is_mac_load]
    if not rows:
        return
    checks.title("Mac&Load: product of the old entries, reload, incremented pointer")
    entries, place = [0] * NNRF_ENTRIES, 0
    checks.code("    li a0, operands")
    for insn in (row for row in rows for _ in range(2)):
        values = _immediates(checks, insn)
        b, d = checks.word(), checks.word()
        if insn.entry is None:
            selector = values["nnimm5"]
            if selector >> _RELOAD_LSB == _BOTH_RELOADS and not insn.reloads_other:
                values["nnimm5"] = selector = selector ^ 1 << _RELOAD_LSB
            activation, weight = selector & 1, FIRST_WEIGHT + (selector >> _WEIGHT_LSB & 3)
            reloaded = (None, activation, weight, activation ^ 1)[selector >> _RELOAD_LSB]
            factor = entries[activation]
        else:
            weight = reloaded = FIRST_WEIGHT + insn.entry
            factor = b
        assert insn.fmt is not None
        signs = {"a_signed": insn.a_signed, "b_signed": insn.b_signed}
        accumulator = d if insn.accumulates else 0
        expected = dot_product(insn.fmt, entries[weight], factor, **signs, accumulator=accumulator)
        if reloaded is not None:
            entries[reloaded] = int.from_bytes(checks.operands[place : place + WORD_BYTES], "little")
            place += WORD_BYTES
        text = render(insn, insn.encode(**values))
        checks.code(f"    li a1, {b}; li a2, {d}\n    {text}")
        checks.expect("a2", expected, text)
        if place > len(checks.operands) - WORD_BYTES:
            checks.expect("a0", places()["operands"] + place, "pointer of Mac&Load")
            checks.code("    li a0, operands")
            place = 0


def quantisation(checks: Checks) -> None:
    """pv.qnt of random pixels, with whatever lies in memory as thresholds."""
    rows = [insn for insn in _rows(checks) if insn.op == "pv.qnt"]
    if not rows:
        return
    checks.title("threshold quantisation: a binary search for each of two pixels")
    for insn in (row for row in rows for _ in range(_SEARCHES)):
        assert insn.fmt is not None
        width, pixels = insn.fmt.width, checks.word()
        table = HALF_BYTES << width
        start = checks.random.randrange(0, len(checks.operands) - 2 * table + 1, 2 * table)
        codes = [
            _searched(checks, signed(pixels >> 16 * number, 16), start + number * table, width) for number in range(2)
        ]
        text = render(insn, insn.encode(rd=_D, rs1=_A, rs2=_B))
        middle = start + table // 2 - HALF_BYTES
        checks.code(f"    li a0, {pixels}; li a1, operands{middle:+d}\n    {text}")
        checks.expect("a2", codes[1] << width | codes[0], f"{text} of thresholds at {start}")


def _searched(checks: Checks, pixel: int, start: int, width: int) -> int:
    """Code of a pixel among the half-words from a byte of the operands on; its first bit is inverted."""
    code, place = 0, (1 << (width - 1)) - 1
    for bit in reversed(range(width)):
        at = start + HALF_BYTES * place
        above = pixel > int.from_bytes(checks.operands[at : at + HALF_BYTES], "little", signed=True)
        code |= above << bit
        place += (1 << bit >> 1) * (1 if above else -1)
    return code ^ 1 << (width - 1)
