"""Inputs of a unit of the EX stage for an instruction, and where its result appears.

The ID stage hands prepared operands to EX: immediates extended, scalars replicated, bit-field forms unified. This is
that preparation written on numpy columns, independent of the gates, so that units are tested with table rows.
"""

import numpy as np

from xpulpnn.isa.formats import Op2Mode
from xpulpnn.isa.insn import Insn
from xpulpnn_sim.reference.golden import fields
from xpulpnn_sim.reference.golden.effects import U32, Effects, Sources
from xpulpnn_sim.reference.golden.memory import OFFSETS

_MAC_LOAD_STEP = 4
_SHIFT_MASK = np.uint32(31)
_FIELD_WIDTH_LSB = 5
_NORMALISING_STEMS = ("addN", "addRN", "subN", "subRN", "adduN", "adduRN", "subuN", "subuRN")
_BIT_FIELDS = ("extract", "extractu", "insert", "bclr", "bset")

OperandColumns = dict[str, U32]  # OperandColumns by port


def replicate(value: U32, width: int) -> U32:
    """The low ``width`` bits of every word in all its lanes."""
    lanes = sum(1 << position for position in range(0, 32, width))
    return ((value.astype(np.uint64) & np.uint64((1 << width) - 1)) * np.uint64(lanes)).astype(np.uint32)


def _shuffle_selectors(insn: Insn, word: U32) -> U32:
    """Selector word of the immediate shuffles: one selector in the low bits of each lane."""
    selector = fields.uimm6(word)
    if insn.op == "pv.shufflei":
        assert insn.entry is not None
        lanes = [selector & 3, selector >> 2 & 3, selector >> 4 & 3, np.full_like(word, insn.entry)]
    else:
        lanes = [selector & 1, selector >> 1 & 1]
    width = 32 // len(lanes)
    total = np.zeros_like(word)
    for lane, value in enumerate(lanes):
        total |= value << np.uint32(lane * width)
    return total


def _second(insn: Insn, src: Sources) -> U32:
    """Operand b of arithmetic rows."""
    last = insn.operands.rsplit(",", maxsplit=1)[-1].strip("()!")
    is2 = fields.uimm5(src.word)
    match insn.op:
        case op if op in _BIT_FIELDS and "Is3" in insn.operands:
            return fields.is3(src.word) << np.uint32(_FIELD_WIDTH_LSB) | is2
        case "clip" | "clipu" if "Is2" in insn.operands:
            return np.where(is2 == 0, 0, (1 << (np.maximum(is2, 1) - 1).astype(np.int64)) - 1).astype(np.uint32)
        case "pv.extract" | "pv.extractu" | "pv.insert":
            return fields.uimm6(src.word)
        case "pv.shuffle" | "pv.shufflei" if last == "uimm6":
            return _shuffle_selectors(insn, src.word)
        case _ if insn.fmt is not None and insn.mode is Op2Mode.SCI:
            return replicate(fields.IMMEDIATES[last](src.word), insn.fmt.width)
        case _ if insn.fmt is not None and insn.mode is Op2Mode.SC:
            return replicate(src.rs2, insn.fmt.width)
        case _ if last in fields.IMMEDIATES:
            return fields.IMMEDIATES[last](src.word)
        case _ if insn.is_branch and "simm5" in insn.operands:
            return fields.simm5(src.word)
        case _:
            # The rs2 field of one-operand instructions names x0.
            return src.rs2 if "rs2" in insn.operands else np.zeros_like(src.word)


def operands_of(insn: Insn, src: Sources) -> OperandColumns:
    """Operand columns of the N executions of ``insn`` in ``src``."""
    zero = np.zeros_like(src.word)
    operands = {"op_a": src.rs1, "op_b": zero, "op_c": src.rd, "shamt": fields.is3(src.word)}
    if insn.op == "lui":
        return operands | {"op_a": zero, "op_b": fields.uimm20(src.word)}
    if insn.op == "auipc":
        return operands | {"op_a": src.pc, "op_b": fields.uimm20(src.word)}
    if insn.is_jump:
        return operands | {"op_a": src.pc, "op_b": np.full_like(src.word, src.length)}
    if insn.is_mac_load:
        return operands | {"op_b": np.full_like(src.word, _MAC_LOAD_STEP)}
    if insn.requantises:
        # the multiplier takes the factor of the NN-RF in place of the first operand
        return operands | {"op_a": ~src.rs1, "op_b": src.rs1}
    if insn.is_load or insn.is_store:
        offset = insn.operands.split("(")[0].rsplit(",", maxsplit=1)[-1]
        return operands | {"op_b": OFFSETS[offset](src)}
    if insn.op in _NORMALISING_STEMS and "Is3" not in insn.operands:
        return operands | {"op_a": src.rd, "op_b": src.rs1, "shamt": src.rs2 & _SHIFT_MASK}
    return operands | {"op_b": _second(insn, src)}


def ports_of_row(insn: Insn, src: Sources) -> OperandColumns:
    """Everything that a unit of the EX stage may receive for ``insn``, its dot product included.

    ``rs1 rs2 rd`` of the dot-product unit are ``dotp_a dotp_b op_c`` of the stage: factors and accumulator, whatever
    they come from.
    """
    operands = operands_of(insn, src)
    first, second = operands["op_a"], operands["op_b"]
    if insn.is_mac_load:
        first, second = src.wgt, src.act if insn.op == "pv.mlsdot" else src.rs2
    is_dotp = "dot" in insn.op
    held = {
        "dotp_fmt": insn.fmt.value if is_dotp and insn.fmt is not None else 0,
        "dotp_a_signed": is_dotp and insn.a_signed,
        "dotp_b_signed": is_dotp and insn.b_signed,
    }
    columns = {name: np.full_like(src.word, value) for name, value in held.items()}
    # where they mean nothing they are anything
    columns["nn_kappa"], columns["nn_lambda"] = (src.act, src.wgt) if insn.requantises else (src.loaded, ~src.loaded)
    factors = {"rs1": first, "rs2": second, "rd": src.rd, "dotp_a": first, "dotp_b": second}
    return operands | columns | factors


def alu_expectation(insn: Insn, effects: Effects, operands: OperandColumns) -> dict[str, U32]:
    """Outputs of the ALU for ``insn``: the branch condition, the new base or address, or the value of rd.

    Bases and addresses are taken from ``sum``, past the choice of the result.
    """
    if insn.is_branch:
        assert effects.taken is not None
        return {"comparison": effects.taken.astype(np.uint32)}
    if insn.is_mac_load or insn.writes_base:
        total = operands["op_a"] + operands["op_b"]
        return {"result": total if effects.base is None else effects.base, "sum": total}
    if insn.is_load or insn.is_store:
        assert effects.address is not None
        return {"result": effects.address, "sum": effects.address}
    assert effects.rd is not None
    return {"result": effects.rd}
