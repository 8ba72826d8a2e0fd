"""The trace of a program: one line for each retired instruction."""

from functools import lru_cache

from xpulpnn.config import CoreConfig
from xpulpnn.isa.machine import HALF_MASK, LENGTH_MASK, ExceptionCause
from xpulpnn.isa.retirement import CAUSE_CODE, CAUSE_INTERRUPT, CYCLE, ORDER_BITS, RETIREMENT_FIELDS
from xpulpnn.isa.table import ALL_WORDS, Decoder
from xpulpnn.xif.config import XifHost
from xpulpnn_sw.assembly.disasm import ABI_NAMES, render

WIDE_FIELDS = (*(field.name for field in RETIREMENT_FIELDS if field.width == ORDER_BITS), CYCLE.name)
"""Names of 64-bit fields: number and clock cycle of the retirement."""

WORD_FIELDS = tuple(field.name for field in RETIREMENT_FIELDS if field.width < ORDER_BITS)
"""Names of 32-bit fields; narrower ports are zero-extended."""

RECORD_FIELDS = (*WIDE_FIELDS, *WORD_FIELDS)  # in the order of the driver

TRACE_HEADER = f"{'cycle':>12} {'pc':>8} {'word':>8}  {'instruction':<40} effects"
HEADER_OF_CORES = f"core {TRACE_HEADER}"

EXCEPTIONS = {cause.value: cause.name.lower().replace("_", " ") for cause in ExceptionCause}

_TEXT_COLUMNS = 40
_COMPRESSED_DIGITS, _WORD_DIGITS = 4, 8

_DATA_DIGITS = {0b1: 2, 0b11: 4, 0b1111: 8}  # Hexadecimal digits of an access by its byte mask

decode = ALL_WORDS.decode  # None for a word that is illegal in all configurations


def decoder_of(config: CoreConfig) -> Decoder:
    """Return a decoder for traces: of all instructions, or of those of a core with the coprocessor."""
    return Decoder(config.insns) if isinstance(config, XifHost) else ALL_WORDS


@lru_cache(maxsize=1 << 16)
def text_of(raw: int, pc: int, decoder: Decoder = ALL_WORDS) -> str:
    insn = decoder.decode(raw)
    return "illegal" if insn is None else render(insn, raw, pc)


def digits_of(raw: int) -> str:
    """Return the raw word in hexadecimal, with four digits if it is compressed."""
    compressed = raw & LENGTH_MASK != LENGTH_MASK and raw <= HALF_MASK
    return f"{raw:0{_COMPRESSED_DIGITS if compressed else _WORD_DIGITS}x}"


def effects_of(record: dict[str, int]) -> str:
    parts: list[str] = []
    cause = record["cause"]
    if record["intr"]:
        parts.append(f"interrupt {cause & CAUSE_CODE}" if cause & CAUSE_INTERRUPT else "interrupt")
    if record["trap"]:
        code = cause & CAUSE_CODE
        parts.append(f"trap: {EXCEPTIONS.get(code, f'cause {code}')}")
        return "  ".join(parts)
    for enable, register, value in (("rd_we", "rd_addr", "rd_wdata"), ("base_we", "base_addr", "base_wdata")):
        if record[enable] and record[register]:
            parts.append(f"{ABI_NAMES[record[register]]}=0x{record[value]:08x}")
    if record["rd2_we"]:
        parts.append(f"{ABI_NAMES[record['rd_addr'] + 1]}=0x{record['rd2_wdata']:08x}")
    if record["nn_we"]:
        parts.append(f"nn{record['nn_addr']}=0x{record['nn_wdata']:08x}")
    for mask, data, arrow in (("mem_rmask", "mem_rdata", "->"), ("mem_wmask", "mem_wdata", "<-")):
        if record[mask]:
            digits = _DATA_DIGITS.get(record[mask], _WORD_DIGITS)
            value = record[data] & ((1 << 4 * digits) - 1)
            parts.append(f"[0x{record['mem_addr']:08x}]{arrow}0x{value:0{digits}x}")
    return "  ".join(parts)


def line_of(record: dict[str, int], decoder: Decoder = ALL_WORDS) -> str:
    pc, raw = record["pc_rdata"], record["insn"]
    head = f"{record['cycle']:>12} {pc:08x} {digits_of(raw):>8}  {text_of(raw, pc, decoder):<{_TEXT_COLUMNS}} "
    return (head + effects_of(record)).rstrip()
