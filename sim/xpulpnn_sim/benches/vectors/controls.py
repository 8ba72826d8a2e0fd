"""Control words of the units for the instructions of the table."""

from collections.abc import Callable, Mapping
from typing import Any

from amaranth.hdl import Const
from amaranth.lib import data

from xpulpnn.config import CoreConfig
from xpulpnn.core.alu_ctrl import AluCtrl, alu_control
from xpulpnn.core.control import ExCtrl, IdCtrl, LsuCtrl, PairCtrl, control_fields
from xpulpnn.core.div import DivCtrl, div_control
from xpulpnn.core.mult import MultCtrl, mult_control
from xpulpnn.core.quantiser import QuantiserCtrl
from xpulpnn.core.requantiser import RequantiseCtrl, requantise_control
from xpulpnn.dotp.ctrl import DotpCtrl, dotp_control
from xpulpnn.isa.insn import Insn
from xpulpnn.isa.machine import WORD_BYTES
from xpulpnn.isa.table import enabled
from xpulpnn_sim.benches.vectors.rows import ControlledInsn

RowControl = Callable[[Insn], Mapping[str, Any] | None]
"""Returns the fields of a unit's control word for an instruction, None if the unit does not execute it."""
RowsOf = Callable[[CoreConfig], list[ControlledInsn]]  # rows of the instruction table that a unit executes


def control_port(shape: type[data.Struct], fields: Mapping[str, Any], port: str = "ctrl") -> dict[str, int]:
    nested: dict[str, Any] = {}
    for name, value in fields.items():
        *parents, leaf = name.split(".")
        place = nested
        for parent in parents:
            place = place.setdefault(parent, {})
        place[leaf] = value
    return {port: Const.cast(shape.const(nested)).value}


def instructions(config: CoreConfig) -> list[Insn]:
    return [insn for insn in enabled(config.extensions, config.widths) if insn.size == WORD_BYTES]


def controlled_rows(shape: type[data.Struct], control: RowControl, port: str = "ctrl") -> RowsOf:
    """Return a function that lists the 32-bit instructions that a unit executes, with their control words."""

    def rows(config: CoreConfig) -> list[ControlledInsn]:
        executed = [(insn, fields) for insn in instructions(config) if (fields := control(insn)) is not None]
        return [(insn, control_port(shape, fields, port)) for insn, fields in executed]

    return rows


def control_part(name: str, applies: Callable[[Insn], bool]) -> RowControl:
    def control(insn: Insn) -> Mapping[str, Any] | None:
        if not applies(insn):
            return None
        prefix, fields = f"{name}.", control_fields(insn).items()
        return {key.removeprefix(prefix): value for key, value in fields if key.startswith(prefix)}

    return control


def _with_requantise(rows: RowsOf) -> RowsOf:
    return lambda config: [(insn, {**ports, "requantise": int(insn.requantises)}) for insn, ports in rows(config)]


mult_rows = _with_requantise(controlled_rows(MultCtrl, mult_control))


def decoded_rows(config: CoreConfig) -> list[ControlledInsn]:
    shapes: dict[str, type[data.Struct]] = {"ctrl": IdCtrl}
    shapes |= {"quantise": QuantiserCtrl} if config.qnt else {}
    shapes |= {"requantise": RequantiseCtrl} if config.requantise else {}
    shapes |= {"pair": PairCtrl} if config.mac_load_pair else {}
    rows: list[ControlledInsn] = []
    for insn in instructions(config):
        words: dict[str, dict[str, Any]] = {port: {} for port in shapes}
        for name, value in control_fields(insn).items():
            port, dot, field_name = name.partition(".")
            # fields without a port of their own belong to `ctrl`
            place, key = (port, field_name) if dot and port in words else ("ctrl", name)
            words[place][key] = value
        rows.append((insn, {port: control_port(shapes[port], fields)["ctrl"] for port, fields in words.items()}))
    return rows


def product_rows(config: CoreConfig) -> list[ControlledInsn]:
    # narrower weights are widened before this unit
    dots = [insn for insn in instructions(config) if dotp_control(insn) is not None and insn.wgt_fmt is None]
    products = [(insn, {"ctrl": 0, "requantise": 0, "dotp_accumulate": int(insn.accumulates)}) for insn in dots]
    return [(insn, {**ports, "dotp_accumulate": 0}) for insn, ports in mult_rows(config)] + products


def widener_rows(config: CoreConfig) -> list[ControlledInsn]:
    """Return the Mac&Load instructions of two products, with the control word of the weight widener."""
    rows: list[ControlledInsn] = []
    for insn in filter(lambda insn: insn.is_pair, instructions(config)):
        ratio = 0 if insn.wgt_fmt is None else insn.wgt_fmt - insn.elements
        control = {"fmt": insn.elements.value, "part": insn.entry or 0, "is_signed": int(insn.a_signed)}
        rows.append((insn, control | {"half": int(ratio == 1), "quarter": int(ratio == 2)}))
    return rows


alu_rows = controlled_rows(AluCtrl, alu_control)
# instructions of two products, whose factors are the other way round, need two of these units
dotp_rows = controlled_rows(DotpCtrl, lambda insn: None if insn.is_pair else dotp_control(insn))
div_rows = controlled_rows(DivCtrl, div_control)
requantiser_rows = controlled_rows(RequantiseCtrl, lambda insn: requantise_control(insn) if insn.requantises else None)
lsu_rows = controlled_rows(LsuCtrl, control_part("lsu", lambda insn: insn.is_load or insn.is_store), "ex_ctrl")


def wide_mult_rows(config: CoreConfig) -> list[ControlledInsn]:
    return [(insn, {**ports, "start": 1}) for insn, ports in mult_rows(config)]


def _depends_on_operands(insn: Insn) -> bool:
    has_result = insn.writes_rd | insn.is_branch | insn.is_store
    return has_result and insn.wgt_fmt is None and not insn.op.startswith(("csr", "pv.qnt"))


ex_rows = _with_requantise(controlled_rows(ExCtrl, control_part("ex", _depends_on_operands)))
"""EX-stage instructions whose result depends on operands alone, with control words as ID passes them."""
