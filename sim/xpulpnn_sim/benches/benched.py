"""A hardware unit with its bench, and the rows of the instruction table that benches are told."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from amaranth.hdl import Const
from amaranth.lib import data, wiring

from xpulpnn.config import CoreConfig
from xpulpnn.isa.insn import Insn
from xpulpnn.isa.machine import WORD_BYTES
from xpulpnn.isa.table import enabled
from xpulpnn.verilog import EmittedVerilog, emit
from xpulpnn_sim.benches.runner import SIMULATORS

ControlledRow = tuple[str, str, dict[str, int]]  # Mnemonic, operands and values of the control ports
RowControl = Callable[[Insn], Mapping[str, Any] | None]
"""Fields of a unit's control word for an instruction, None for one that it does not execute."""

ComponentMaker = Callable[[], wiring.Component]


@dataclass(frozen=True, slots=True)
class BenchedUnit:
    """A unit and its bench."""

    bench: str  # the bench is the module `bench_<bench>` of this package; the top module is called the same
    make: ComponentMaker  # builds the component
    describe: Callable[[], Mapping[str, Any]] = dict  # makes the data for the bench
    simulators: Sequence[str] = SIMULATORS  # where the bench runs

    def emit(self) -> EmittedVerilog:
        """Verilog and ports."""
        return emit(self.make(), self.bench, config={})


def constant_word(shape: type[data.Struct], fields: Mapping[str, Any]) -> int:
    """A control word from field values with dotted names."""
    nested: dict[str, Any] = {}
    for name, value in fields.items():
        *parents, leaf = name.split(".")
        place = nested
        for parent in parents:
            place = place.setdefault(parent, {})
        place[leaf] = value
    return Const.cast(shape.const(nested)).value


def controlled_rows(
    config: CoreConfig, shape: type[data.Struct], control: RowControl, port: str = "ctrl"
) -> list[ControlledRow]:
    """The 32-bit rows of a configuration that a unit executes, with their control words."""
    words = [insn for insn in enabled(config.extensions, config.widths) if insn.size == WORD_BYTES]
    executed = [(insn, fields) for insn in words if (fields := control(insn)) is not None]
    return [(insn.mnemonic, insn.operands, {port: constant_word(shape, fields)}) for insn, fields in executed]
