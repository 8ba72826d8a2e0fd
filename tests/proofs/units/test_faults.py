"""Faults by structure: each has its place in the core, and says so if the place is gone."""

from contextlib import ExitStack
from dataclasses import replace

import pytest

from xpulpnn.config import PRESETS
from xpulpnn.core.core import Core
from xpulpnn.core.lsu import Lsu
from xpulpnn.errors import ToolError
from xpulpnn.verilog import emit
from xpulpnn_sim.proofs.faults.core import CORE_FAULTS
from xpulpnn_sim.proofs.faults.core_fault import CoreFault
from xpulpnn_sim.proofs.faults.instructions import INSTRUCTION_FAULTS, PARAMETER_FAULTS
from xpulpnn_sim.proofs.faults.sequencing import SEQUENCE_FAULTS

pytestmark = pytest.mark.unit


def modules(*faults: CoreFault) -> dict[str, str]:
    with ExitStack() as seeded:
        for fault in faults:
            seeded.enter_context(fault.seeded())
        return emit(Core(replace(PRESETS["xpulpnn2"], rvfi=True)), "core", config={}).modules


def test_every_fault_has_its_place_and_changes_its_module_alone():
    faults = (*CORE_FAULTS, *INSTRUCTION_FAULTS, *PARAMETER_FAULTS, *SEQUENCE_FAULTS)
    right, wrong = modules(), modules(*faults)
    assert {name for name in right if wrong[name] != right[name]} == {fault.module for fault in faults}
    assert modules() == right


def test_the_value_that_is_assigned_is_another():
    (text,) = emit(Lsu(), "lsu", config={}).modules.values()
    with CoreFault("", Lsu, {"ex_granted": lambda right, u: right & u(".second")}, "").seeded():
        (changed,) = emit(Lsu(), "lsu", config={}).modules.values()
    assert changed == text.replace(
        "assign ex_granted = data__req & data__gnt;", "assign ex_granted = data__req & data__gnt & second;"
    )
    assert changed != text


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("nowhere", "Lsu must have nowhere"),
        (".nowhere", "Lsu must have .nowhere"),
        ("data.gnt", "Lsu must assign data.gnt"),
    ],
)
def test_a_place_that_is_gone_is_told(path: str, message: str):
    with (
        CoreFault("", Lsu, {path: lambda right, u: right}, "").seeded(),
        pytest.raises(ToolError, match=f"^{message}$"),
    ):
        emit(Lsu(), "lsu", config={})
