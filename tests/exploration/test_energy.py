"""Transitions and energies of circuits small enough to work out by hand, run by the native code."""

import ctypes
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tests.exploration.sample_results import Cells, netlist

from xpulpnn.config import PRESETS
from xpulpnn.errors import ToolError
from xpulpnn_sim.exploration.energy.charges import Charges
from xpulpnn_sim.exploration.energy.gate_model import CLOCK_GATE, Activity, Circuit, Gates
from xpulpnn_sim.exploration.energy.programs import general_code
from xpulpnn_sim.exploration.liberty import Liberty, read_liberty
from xpulpnn_sim.exploration.mapped_netlist import GATED
from xpulpnn_sim.reference.iss.session import IssSession
from xpulpnn_sim.reference.programs.elf import Executable, Segment

pytestmark = pytest.mark.flow

VOLTAGE, PERIOD_NS = 2.0, 10.0

LIBRARY = """
library (tiny) {
  time_unit : "1ns"; voltage_unit : "1V"; leakage_power_unit : "1nW"; nom_voltage : 2.0;
  capacitive_load_unit (1, ff);
  cell (INV) {
    area : 1; cell_leakage_power : 1;
    pin (A) { direction : input; capacitance : 1; }
    pin (Y) { direction : output; function : "!A";
      internal_power () { related_pin : "A";
        rise_power (scalar) { values ("0.25"); } fall_power (scalar) { values ("0.75"); } } }
  }
  cell (NAND2) {
    area : 1; cell_leakage_power : 2;
    pin (A) { direction : input; capacitance : 2; }
    pin (B) { direction : input; capacitance : 3; }
    pin (Y) { direction : output; function : "!(A * B)";
      internal_power () { related_pin : "A"; power (scalar) { values ("1"); } }
      internal_power () { related_pin : "B"; power (scalar) { values ("2"); } } }
  }
  cell (XOR2) {
    area : 2; cell_leakage_power : 4;
    pin (A) { direction : input; capacitance : 4; }
    pin (B) { direction : input; capacitance : 4;
      internal_power () { when : "A"; power (scalar) { values ("1"); } }
      internal_power () { power (scalar) { values ("100"); } } }
    pin (Y) { direction : output; function : "A ^ B"; }
  }
  cell (DFF) {
    area : 5; cell_leakage_power : 8;
    ff (IQ, IQN) { clocked_on : "CK"; next_state : "D"; }
    pin (CK) { direction : input; clock : true; capacitance : 1.5;
      internal_power () { when : "D * !Q"; rise_power (scalar) { values ("0"); } fall_power (scalar) { values ("4"); } }
      internal_power () { rise_power (scalar) { values ("1"); } fall_power (scalar) { values ("2"); } } }
    pin (D) { direction : input; capacitance : 0.5;
      internal_power () { when : "CK"; power (scalar) { values ("0"); } }
      internal_power () { when : "!CK"; power (scalar) { values ("3"); } } }
    pin (Q) { direction : output; function : "IQ";
      internal_power () { related_pin : "CK"; power (scalar) { values ("5"); } } }
  }
  cell (ICG) {
    area : 4; cell_leakage_power : 16; clock_gating_integrated_cell : "latch_posedge";
    pin (CLK) { direction : input; clock : true; clock_gate_clock_pin : true; capacitance : 2;
      internal_power () { rise_power (scalar) { values ("1"); } fall_power (scalar) { values ("2"); } } }
    pin (EN) { direction : input; clock_gate_enable_pin : true; capacitance : 1;
      internal_power () { power (scalar) { values ("7"); } } }
    pin (GCLK) { direction : output; clock_gate_out_pin : true;
      internal_power () { related_pin : "CLK";
        rise_power (scalar) { values ("3"); } fall_power (scalar) { values ("4"); } } }
  }
}
"""


@pytest.fixture(name="liberty")
def fixture_liberty() -> Liberty:
    return read_liberty(LIBRARY, "tiny.lib")


def circuit(
    folder: Path, liberty: Liberty, cells: Cells, inputs: Mapping[str, int], outputs: Mapping[str, int]
) -> Circuit:
    return Circuit(netlist(folder, cells, inputs, outputs, {}), "top", liberty, "DFF")


CYCLES = 64


def follow(library: Path, of: Circuit, ports: Iterable[int], name: str = "here") -> None:
    """Clock an instance once with each of these values of its ports, inputs in the lowest bits."""
    native, words = ctypes.CDLL(str(library)), (len(of.sources) + len(of.sinks)) // 32 + 1
    number = native.gate_instance(name.encode())
    for value in ports:
        for word in range(words):
            native.gate_port(number, word, ctypes.c_int(value >> 32 * word & 0xFFFF_FFFF))
        native.gate_follow(number)


def activity(
    library: Path, of: Circuit, *columns: Sequence[int], delays: Sequence[int] = (), chunks: int = 1
) -> Activity:
    """Run with the values of each input; the last one goes on to the end of the chunks."""
    of.delays = np.array(delays or [1] * len(of.gates), np.uint32)
    gates = Gates(library)
    gates.create(of, "here", [number * CYCLES for number in range(chunks)], CYCLES)
    cycles = range(chunks * CYCLES)
    follow(
        library, of, (sum(column[min(at, len(column) - 1)] << n for n, column in enumerate(columns)) for at in cycles)
    )
    return gates.result(0)[0]


def charges(of: Circuit, liberty: Liberty) -> Charges:
    return Charges(of, library_of(liberty))


def library_of(liberty: Liberty) -> Any:
    return SimpleNamespace(liberty=liberty, cells=liberty.cells, clock_gate="ICG", fo4_ps=60.0)


GATES: Cells = {
    "$flatten\\left.$abc$1": ("INV", {"A": 2, "Y": 4}),
    "$flatten\\left.$abc$2": ("NAND2", {"A": 4, "B": 3, "Y": 5}),
    "$abc$3": ("XOR2", {"A": 5, "B": 2, "Y": 6}),
}


SLOW = [1, 1, 3]  # the exclusive or swallows what the others do one after the other


def test_energy_of_three_gates(tmp_path: Path, liberty: Liberty, interpreter: Path) -> None:
    design = circuit(tmp_path, liberty, GATES, {"a": 2, "b": 3}, {"y": 6})
    # a: 0 1 0 0, b: 1 1 1 0 -> inv: 1 0 1 1, nand: 0 1 0 1, xor: 0 0 0 1
    seen = activity(interpreter, design, [0, 1, 0, 0], [1, 1, 1, 0], delays=SLOW)
    assert seen.toggles[2:7].tolist() == [2, 1, 2, 3, 1]
    assert seen.transitions == CYCLES - 1
    top, left = charges(design, liberty).modules(seen, {"top": "top", "top.left": "left"})
    per_cycle, half = 1 / (CYCLES - 1), VOLTAGE**2 / 2
    # internal tables are in fF V^2 = fJ: INV 0.5 per edge, NAND2 1.5; XOR2.B 1 in the state that the file singles out
    assert left.switching == pytest.approx((2 * 2 + 3 * 4) * half * per_cycle)
    assert left.internal == pytest.approx((2 * 0.5 + 3 * 1.5) * per_cycle)
    assert left.leakage == pytest.approx((1 + 2) * PERIOD_NS * 1e-3)
    assert top.switching == pytest.approx((2 * (1 + 4) + 1 * 3) * half * per_cycle)
    assert top.internal == pytest.approx(2 * 1 * per_cycle)
    assert (top.path, left.path, left.module, top.clock) == ("top", "left", "left", 0)


def test_wires_are_a_part_of_the_switching(tmp_path: Path, liberty: Liberty, interpreter: Path) -> None:
    design = circuit(tmp_path, liberty, GATES, {"a": 2, "b": 3}, {"y": 6})
    seen = activity(interpreter, design, [0, 1, 0, 0], [1, 1, 1, 0], delays=SLOW)
    bare = charges(design, liberty).modules(seen, {"top": "top", "top.left": "left"})
    wired = Charges(design, library_of(liberty), {2: 5.0, 4: 3.0})
    top, left = wired.modules(seen, {"top": "top", "top.left": "left"})
    # the input a, of 2 transitions, is the top's; the output of the inverter, of 2 as well, is left's
    per_cycle = VOLTAGE**2 / 2 / (CYCLES - 1)
    assert (top.wires, left.wires) == pytest.approx((2 * 5 * per_cycle, 2 * 3 * per_cycle))
    assert [top.switching - top.wires, left.switching - left.wires] == pytest.approx([part.switching for part in bare])
    assert [part.wires for part in bare] == [0, 0]
    assert (wired.loads_ff - charges(design, liberty).loads_ff).tolist() == [0, 0, 5, 0, 3, 0, 0]


def counter(width: int, *, gated: bool) -> Cells:
    """A binary counter on the nets 10, 11, ...; carries on 20, 21, ..., next states on 30, 31, ...; enable 3."""
    cells: dict[str, tuple[str, Mapping[str, int | str]]] = {}
    for bit in range(width):
        q, carry, following = 10 + bit, 20 + bit, 30 + bit
        before = 40 + bit if bit else "1"
        cells[f"x{bit}"] = ("XOR2", {"A": q, "B": before, "Y": following})
        cells[f"n{bit}"] = ("NAND2", {"A": q, "B": before, "Y": carry})
        cells[f"i{bit}"] = ("INV", {"A": carry, "Y": 41 + bit})
        pins = {"C": 2, "D": following, "E": 3, "Q": q} if gated else {"CK": 2, "D": following, "Q": q}
        cells[f"q{bit}"] = (GATED if gated else "DFF", pins)
    return cells


def test_chunks_do_not_touch(tmp_path: Path, liberty: Liberty, interpreter: Path) -> None:
    design = circuit(tmp_path, liberty, counter(2, gated=False), {"clk": 2, "en": 3}, {"y": 11})
    seen = activity(interpreter, design, [0], chunks=2)
    assert seen.toggles[10:12].tolist() == [2 * (CYCLES - 1), 2 * (CYCLES // 2 - 1)]
    assert (seen.cycles, seen.transitions) == (2 * CYCLES, 2 * (CYCLES - 1))


def test_energy_of_clocks(tmp_path: Path, liberty: Liberty, interpreter: Path) -> None:
    free = circuit(tmp_path, liberty, counter(1, gated=False), {"clk": 2, "en": 3}, {"y": 10})
    seen = activity(interpreter, free, [0])
    (module,) = charges(free, liberty).modules(seen, {"top": "top"})
    # C V^2 per cycle; D = 1 and Q = 0 in every other cycle: 0 + 4, else 1 + 2
    assert module.clock == pytest.approx(1.5 * VOLTAGE**2 + (4 + 3) / 2)
    # everything switches in every cycle: Q 5, D 0 or 3 by the level of the clock, NAND2 1.5, INV 0.5
    assert module.internal == pytest.approx(5 + 1.5 + 1.5 + 0.5)

    gated = circuit(tmp_path, liberty, counter(1, gated=True), {"clk": 2, "en": 3}, {"y": 10})
    enable = [0, 1] * (CYCLES // 2)
    seen = activity(interpreter, gated, enable)
    assert seen.clocked.sum() == CYCLES // 2
    (module,) = charges(gated, liberty).modules(seen, {"top": "top"})
    register = (1.5 * VOLTAGE**2 + (4 + 3) / 2) / 2
    gate = 2 * VOLTAGE**2 + (1 + 2) + (3 + 4) / 2 + 7
    assert module.clock == pytest.approx(register + gate)
    # the clock rests at 0 while D switches
    assert module.internal == pytest.approx(31 / 63 * (5 + 3 + 1.5 + 0.5))
    assert module.leakage == pytest.approx((8 + 16 + 4 + 2 + 1) * PERIOD_NS * 1e-3)


def behind_a_gate(cells: Cells, clock: int, enable: int) -> Cells:
    """Registers whose clock, net 2, a clock gate of the design with the output 4 lets through."""
    moved = {
        name: (kind, {pin: 4 if net == 2 else net for pin, net in pins.items()}) for name, (kind, pins) in cells.items()
    }
    return {**moved, "gate": (CLOCK_GATE, {"clk": clock, "enable": enable, "test_en": "0", "gated": 4})}


def test_energy_behind_a_clock_gate_of_the_design(tmp_path: Path, liberty: Liberty, interpreter: Path) -> None:
    inputs = {"clk": 2, "en": 3, "awake": 5}
    enable, awake = [0, 1] * (CYCLES // 2), [0] * (CYCLES // 2) + [1] * (CYCLES // 2)
    behind = circuit(tmp_path, liberty, behind_a_gate(counter(1, gated=True), 2, 5), inputs, {"y": 10})
    seen = activity(interpreter, behind, enable, awake)
    assert seen.clocked.sum() == CYCLES // 4
    (module,) = charges(behind, liberty).modules(seen, {"top": "top"})
    register = (1.5 * VOLTAGE**2 + (4 + 3) / 2) / 4
    clock_pin = 2 * VOLTAGE**2 + (1 + 2)
    inner = clock_pin / 2 + (3 + 4) / 4 + 7
    outer = clock_pin + (3 + 4) / 2 + 7 / (CYCLES - 1)
    assert module.clock == pytest.approx(register + inner + outer)
    assert charges(behind, liberty).clock_gates == 2
    # without an enable of its own, the register stands behind the gate of the design alone
    free = circuit(tmp_path, liberty, behind_a_gate(counter(1, gated=False), 2, 5), inputs, {"y": 10})
    seen = activity(interpreter, free, enable, awake)
    (module,) = charges(free, liberty).modules(seen, {"top": "top"})
    assert module.clock == pytest.approx((1.5 * VOLTAGE**2 + (4 + 3) / 2) / 2 + outer)


HAZARD: Cells = {
    "i": ("INV", {"A": 2, "Y": 3}),
    "n": ("NAND2", {"A": 2, "B": 3, "Y": 4}),
    "o": ("INV", {"A": 4, "Y": 5}),
}


@pytest.mark.parametrize(("delays", "glitches"), [([1, 1, 1], 2), ([3, 2, 1], 2), ([1, 2, 1], 0), ([3, 1, 4], 0)])
def test_glitches(tmp_path: Path, liberty: Liberty, interpreter: Path, delays: list[int], glitches: int) -> None:
    """When a rises, the NAND of a and its inverse falls for the delay of the inverter, unless it is slower itself."""
    design = circuit(tmp_path, liberty, HAZARD, {"a": 2}, {"y": 5})
    ordered = [delays[gate.output - 3] for gate in design.gates]
    seen = activity(interpreter, design, [0, 0, 1, 1, 0, 1], delays=ordered)
    # a rises twice; the last gate of the last case swallows what the one before lets pass
    assert seen.toggles[5] == 2 * glitches
    assert seen.toggles[4] == (4 if delays == [3, 1, 4] else 2 * glitches)


def test_modules_add_up_and_a_wide_step_loses_no_settled_transition(
    tmp_path: Path, liberty: Liberty, interpreter: Path
) -> None:
    design = circuit(tmp_path, liberty, GATES, {"a": 2, "b": 3}, {"y": 6})
    a, b = np.random.default_rng(3).integers(0, 2, (2, CYCLES)).tolist()
    seen = activity(interpreter, design, a, b)
    whole = charges(design, liberty).modules(seen, {"top": "top"})
    parts = charges(design, liberty).modules(seen, {"top": "top", "top.left": "left"})
    assert len(whole) == 1
    assert len(parts) == 2
    assert sum(part.total for part in parts) == pytest.approx(whole[0].total)
    assert parts[1].total > 0
    left = [a_bit | 1 - b_bit for a_bit, b_bit in zip(a, b, strict=True)]
    values = [a, b, [1 - bit for bit in a], left, [n ^ bit for n, bit in zip(left, a, strict=True)]]
    settled = np.array([np.abs(np.diff(column)).sum() for column in values])
    for delays in ([1, 1, 1], [2, 1, 3]):
        toggles = activity(interpreter, design, a, b, delays=delays).toggles[2:7].astype(int)
        assert (toggles >= settled).all()
        assert ((toggles - settled) % 2 == 0).all()


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ({"a": ("NAND3", {"A": 2, "Y": 4})}, "cells of the netlist must be in the library tiny, not NAND3"),
        ({"a": ("ICG", {"CLK": 2, "EN": 2, "GCLK": 4})}, "cells of the netlist must be gates or flip-flops, not ICG"),
    ],
)
def test_what_cannot_be_read(tmp_path: Path, liberty: Liberty, cells: Cells, message: str) -> None:
    with pytest.raises(ToolError) as raised:
        circuit(tmp_path, liberty, cells, {"a": 2}, {"y": 4})
    assert str(raised.value) == message


def passes(executable: Executable) -> bool:
    return IssSession(executable, PRESETS["ri5cy"], output=lambda printed: None).run(1_000_000).ok


def test_general_code_checks_itself() -> None:
    executable = general_code()
    assert passes(executable)
    text, data = executable.segments
    for spoilt in (0, data.size // 6, data.size // 3):
        content = bytearray(data.data)
        content[spoilt] ^= 1
        assert not passes(replace(executable, segments=(text, Segment(data.address, bytes(content), data.size))))
