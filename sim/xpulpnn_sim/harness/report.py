"""Text of a mismatch: the instruction, what it read, what it should have done and did, and its neighbours."""

from xpulpnn.errors import EncodingError
from xpulpnn.isa.insn import Insn
from xpulpnn_sim.harness.check import Mismatch
from xpulpnn_sim.harness.engine import Outcome
from xpulpnn_sim.harness.statics import ProgramText
from xpulpnn_sw.disasm import disassemble

_WORD_BITS = 32


def lanes(word: int, insn: Insn, *, signed: bool) -> list[int]:
    """Elements of a packed word in the format of ``insn``, lane 0 first."""
    assert insn.fmt is not None
    width = insn.fmt.width
    values = [word >> low & ((1 << width) - 1) for low in range(0, _WORD_BITS, width)]
    return [value - (1 << width) if signed and value >> (width - 1) else value for value in values]


def _packed_result(insn: Insn) -> bool:
    """Whether rd is a packed word: all SIMD rows but dot products and lane extraction."""
    return insn.fmt is not None and "dot" not in insn.op and "extract" not in insn.op


def _operand_lines(insn: Insn, operands: dict[str, int]) -> list[str]:
    """Values read; those that are packed also lane by lane."""
    factors = {"pv.mlsdot": ("wgt", "act"), "pv.cusdot": ("wgt", "rs2")}.get(insn.op, ("rs1", "rs2"))
    used = [name for name in ("rs1", "rs2") if name in insn.reads]
    used += ["rd_old"] if "rd" in insn.reads else []
    used += ["act", "wgt"] if insn.op == "pv.mlsdot" else ["wgt"] if insn.op == "pv.cusdot" else []
    used += ["loaded"] if insn.is_load or insn.is_mac_load else []
    rows = []
    for name in used:
        text = f"  {name:<8} = 0x{operands[name]:08x}"
        if insn.fmt is not None and name in factors:
            signed = insn.a_signed if name == factors[0] else insn.b_signed
            text += f"  lanes {lanes(operands[name], insn, signed=signed)}"
        rows.append(text)
    return rows


def disassembled(program: ProgramText, index: int) -> str:
    """Address and text of a static instruction."""
    word, pc = int(program.words[index]), int(program.pcs[index])
    try:
        text = disassemble(word, pc)
    except EncodingError:
        text = f".word 0x{word:08x}"
    return f"0x{pc:08x}  {text}"


def describe(program: ProgramText, mismatch: Mismatch, outcome: Outcome) -> str:
    """Several lines about one mismatch."""
    insn = program.insns[mismatch.index]
    rows = [
        f"instruction {mismatch.position} ({program.regions[mismatch.index]}): {disassembled(program, mismatch.index)}",
        f"  {mismatch.what}: expected 0x{mismatch.expected:08x}, got 0x{mismatch.got:08x}",
    ]
    if mismatch.what == "result" and _packed_result(insn):
        rows.append(f"  expected lanes {lanes(mismatch.expected, insn, signed=False)}")
        rows.append(f"  got      lanes {lanes(mismatch.got, insn, signed=False)}")
    if mismatch.operands:
        rows += _operand_lines(insn, mismatch.operands)
    for position, index in outcome.neighbours.get(mismatch.position, []):
        mark = ">" if position == mismatch.position else " "
        rows.append(f"  {mark} {position:>9}  {disassembled(program, index)}")
    return "\n".join(rows)
