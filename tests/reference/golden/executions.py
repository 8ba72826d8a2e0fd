"""Instructions executed by the golden models, with operands by name."""

from dataclasses import fields

import numpy as np

from xpulpnn.isa.insn import Insn
from xpulpnn.isa.table import find
from xpulpnn_sim.reference.golden.effects import Effects, Sources
from xpulpnn_sim.reference.golden.execute import execute

REGISTERS = {"rd": 10, "rs1": 11, "rs2": 12, "rs3": 10}
VALUES = ("rs1", "rs2", "rd", "pc", "loaded", "act", "act2", "wgt")


def _word(insn: Insn, operands: dict[str, int]) -> int:
    defaults = {token.field.name: REGISTERS.get(token.field.name, 0) for token in insn.tokens}
    return insn.encode(**(defaults | operands))


def many(insn: Insn, executions: list[dict[str, int]], length: int = 4) -> Effects:
    """Effects of many executions of a row; register values and other operands of each by name."""
    arrays = {
        name: np.array([execution.get(name, 0) & 0xFFFF_FFFF for execution in executions], np.uint32) for name in VALUES
    }
    words = []
    for execution in executions:
        operands = {name: value for name, value in execution.items() if name not in (*VALUES, "word")}
        words.append(execution.get("word") or _word(insn, operands))
    return execute(insn, Sources(word=np.array(words, np.uint32), length=length, **arrays))


def once(mnemonic: str, form: str | None = None, /, *, length: int = 4, **values: int) -> dict[str, int | None]:
    """Effects of one execution as integers; register values and other operands by name, or the whole ``word``."""
    effects = many(find(mnemonic, form), [values], length)
    return {
        item.name: value if value is None or isinstance(value, int) else int(value[0])
        for item in fields(Effects)
        for value in [getattr(effects, item.name)]
    }
