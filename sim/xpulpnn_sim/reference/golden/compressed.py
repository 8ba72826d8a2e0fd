"""Expands compressed instructions as the RISC-V manual tabulates them ("C" extension, RV32C without floating point).

The code follows the manual's tables by quadrant and funct3. It is independent of the patterns and fields of the
instruction table, which decoder and assembler use.
"""

_LOAD, _STORE, _BRANCH, _JALR, _JAL = 0x03, 0x23, 0x63, 0x67, 0x6F
_OP_IMM, _OP, _LUI = 0x13, 0x33, 0x37
_ADD, _SLL, _XOR, _SRL, _OR, _AND = 0, 1, 4, 5, 6, 7
_ALTERNATE = 0x20  # funct7 of sub and sra
_WORD_SIZE = 2  # funct3 of lw and sw
_EBREAK = 0x0010_0073
_ZERO, _RA, _SP = 0, 1, 2


def expanded(half: int) -> int | None:
    """Return the 32-bit instruction equivalent to a compressed one; None if the word is reserved."""
    return (_quadrant_0, _quadrant_1, _quadrant_2)[half & 3](half, half >> 13)


def _bits(half: int, *spans: tuple[int, int, int], sign: int = 0) -> int:
    """Assemble an immediate from parts of a word, each (first bit, last bit, position)."""
    value = sum((half >> low) % (1 << high - low + 1) << place for high, low, place in spans)
    return value - 2 * sign if sign and value & sign else value


def _i(opcode: int, funct3: int, rd: int, rs1: int, immediate: int) -> int:
    return immediate % 4096 << 20 | rs1 << 15 | funct3 << 12 | rd << 7 | opcode


def _r(funct7: int, funct3: int, rd: int, rs1: int, rs2: int) -> int:
    return funct7 << 25 | rs2 << 20 | rs1 << 15 | funct3 << 12 | rd << 7 | _OP


def _s(rs1: int, rs2: int, immediate: int) -> int:
    return (immediate >> 5) << 25 | rs2 << 20 | rs1 << 15 | _WORD_SIZE << 12 | immediate % 32 << 7 | _STORE


def _b(funct3: int, rs1: int, offset: int) -> int:
    high = (offset >> 12 & 1) << 6 | offset >> 5 & 63
    low = offset & 30 | offset >> 11 & 1
    return high << 25 | rs1 << 15 | funct3 << 12 | low << 7 | _BRANCH


def _j(rd: int, offset: int) -> int:
    parts = (offset >> 20 & 1) << 19 | (offset >> 1 & 1023) << 9 | (offset >> 11 & 1) << 8 | offset >> 12 & 255
    return parts << 12 | rd << 7 | _JAL


def _quadrant_0(half: int, funct3: int) -> int | None:
    upper, lower = 8 + (half >> 7 & 7), 8 + (half >> 2 & 7)
    offset = _bits(half, (12, 10, 3), (6, 6, 2), (5, 5, 6))
    if funct3 == 0:
        immediate = _bits(half, (12, 11, 4), (10, 7, 6), (6, 6, 2), (5, 5, 3))
        return _i(_OP_IMM, _ADD, lower, _SP, immediate) if immediate else None
    if funct3 == 2:
        return _i(_LOAD, _WORD_SIZE, lower, upper, offset)
    return _s(upper, lower, offset) if funct3 == 6 else None


def _quadrant_1(half: int, funct3: int) -> int | None:
    rd = half >> 7 & 31
    immediate = _bits(half, (12, 12, 5), (6, 2, 0), sign=32)
    if funct3 == 0:
        # c.nop with an immediate is a hint
        return _i(_OP_IMM, _ADD, rd, rd, immediate if rd else 0)
    if funct3 == 2:
        return _i(_OP_IMM, _ADD, rd, _ZERO, immediate)
    if funct3 == 3 and rd == _SP:
        step = _bits(half, (12, 12, 9), (6, 6, 4), (5, 5, 6), (4, 3, 7), (2, 2, 5), sign=512)
        return _i(_OP_IMM, _ADD, _SP, _SP, step) if step else None
    if funct3 == 3:
        return immediate % (1 << 20) << 12 | rd << 7 | _LUI if immediate else None
    if funct3 == 4:
        return _arithmetic(half, immediate)
    if funct3 in (1, 5):
        spans = ((12, 12, 11), (11, 11, 4), (10, 9, 8), (8, 8, 10), (7, 7, 6), (6, 6, 7), (5, 3, 1), (2, 2, 5))
        return _j(_RA if funct3 == 1 else _ZERO, _bits(half, *spans, sign=1 << 11))
    offset = _bits(half, (12, 12, 8), (11, 10, 3), (6, 5, 6), (4, 3, 1), (2, 2, 5), sign=256)
    return _b(funct3 - 6, 8 + (half >> 7 & 7), offset)


def _arithmetic(half: int, immediate: int) -> int | None:
    rd, rs2 = 8 + (half >> 7 & 7), 8 + (half >> 2 & 7)
    kind, far = half >> 10 & 3, half >> 12 & 1
    if kind == 2:
        return _i(_OP_IMM, _AND, rd, rd, immediate)
    if far:
        # shifts by more than 31 places, and the additions of RV64
        return None
    if kind < 2:
        return _i(_OP_IMM, _SRL, rd, rd, kind * _ALTERNATE << 5 | half >> 2 & 31)
    funct7, operation = ((_ALTERNATE, _ADD), (0, _XOR), (0, _OR), (0, _AND))[half >> 5 & 3]
    return _r(funct7, operation, rd, rd, rs2)


def _quadrant_2(half: int, funct3: int) -> int | None:
    rd, rs2, far = half >> 7 & 31, half >> 2 & 31, half >> 12 & 1
    if funct3 == 0:
        return None if far else _i(_OP_IMM, _SLL, rd, rd, rs2)
    if funct3 == 2:
        offset = _bits(half, (12, 12, 5), (6, 4, 2), (3, 2, 6))
        return _i(_LOAD, _WORD_SIZE, rd, _SP, offset) if rd else None
    if funct3 == 6:
        return _s(_SP, rs2, _bits(half, (12, 9, 2), (8, 7, 6)))
    if funct3 != 4:
        return None
    if rs2:
        return _r(0, _ADD, rd, rd if far else _ZERO, rs2)
    if rd:
        return _i(_JALR, 0, _RA if far else _ZERO, rd, 0)
    return _EBREAK if far else None
