"""Reports of exceptions: where, which instruction, and why the core raised it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from xpulpnn.config import CoreConfig
from xpulpnn.errors import XpulpnnError
from xpulpnn.isa.compressed import expand_compressed
from xpulpnn.isa.csr import CSR_BY_ADDRESS
from xpulpnn.isa.formats import BASE_EXTENSIONS
from xpulpnn.isa.insn import Insn
from xpulpnn.isa.machine import HALF_BYTES, LENGTH_MASK, WORD_BYTES, ExceptionCause
from xpulpnn_sim.reference.programs.exits import NameOf, place
from xpulpnn_sim.reference.programs.trace import EXCEPTIONS, decode, digits_of
from xpulpnn_sw.assembly.disasm import render
from xpulpnn_sw.toolchain.core_note import presets_with


@dataclass(frozen=True, slots=True)
class Trapped:
    """An exception."""

    pc: int  # address of the instruction
    cause: int  # its code in mcause
    word: int  # the instruction, 16 or 32 bits by its length


def fetched_word(read: Callable[[int, int], bytes], pc: int) -> int:
    """The instruction at ``pc``; 0 outside memory."""
    try:
        low = int.from_bytes(read(pc, HALF_BYTES), "little")
        if low & LENGTH_MASK != LENGTH_MASK:
            return low
        return int.from_bytes(read(pc, WORD_BYTES), "little")
    except XpulpnnError:
        return 0


def describe(trapped: Trapped, config: CoreConfig, core: str, name_of: NameOf) -> str:
    """One line: cause, place, instruction, and what the core, called ``core``, lacks for it."""
    what = EXCEPTIONS.get(trapped.cause, f"cause {trapped.cause}")
    text = f"{what} at {place(trapped.pc, name_of)}"
    if trapped.cause == ExceptionCause.INSTRUCTION_ACCESS_FAULT:
        return text
    text += f": {instruction(trapped.word)}"
    reason = _why_illegal(trapped.word, config, core) if trapped.cause == ExceptionCause.ILLEGAL_INSTRUCTION else ""
    return f"{text}; {reason}" if reason else text


def record(trapped: Trapped, text: str, name_of: NameOf) -> dict[str, Any]:
    """The exception for machines."""
    return {
        "pc": trapped.pc,
        "symbol": name_of(trapped.pc),
        "cause": trapped.cause,
        "word": trapped.word,
        "instruction": instruction(trapped.word),
        "text": text,
    }


def instruction(word: int) -> str:
    """The instruction as text, or the word if no core has it."""
    insn = decode(word)
    return f"0x{digits_of(word)}" if insn is None else render(insn, word)


def _why_illegal(word: int, config: CoreConfig, core: str) -> str:
    """The missing feature of the core for a word; empty if the reason is another."""
    insn = decode(word)
    if insn is not None and insn.size == HALF_BYTES:
        word = expand_compressed(word)
        insn = decode(word)
    if insn is None:
        return "no core has such an instruction"
    if insn.extension in BASE_EXTENSIONS:
        return _csr(insn, word, config)
    absent = [extension.value for extension in insn.needs if extension not in config.extensions]
    if absent:
        missing = " and no ".join(absent)
        having = [name for name in presets_with(absent[0]) if name in presets_with(absent[-1])]
    elif insn.fmt is not None and insn.fmt.width not in config.widths:
        missing = f"elements of {insn.fmt.width} bits"
        having = presets_with(insn.extension.value, insn.fmt.width)
    else:
        return ""
    others = f" (it is in {', '.join(having)})" if having else ""
    return f"{core} has no {missing}{others}"


def _csr(insn: Insn, word: int, config: CoreConfig) -> str:
    fields = insn.decode(word)
    if "csr" not in fields:
        return ""
    csr = CSR_BY_ADDRESS.get(fields["csr"])
    if csr is None:
        return f"no core has a CSR 0x{fields['csr']:03x}"
    if csr.group not in config.csr_groups:
        return f"CSR {csr.name} is there {csr.group.value} only"
    return f"CSR {csr.name} must not be written"
