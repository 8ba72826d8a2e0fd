"""Emitted Verilog is proved equal to its RTLIL, and text that is not is found."""

import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from amaranth.hdl import Array, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from tests.programs import read_results

from xpulpnn.errors import ToolError
from xpulpnn.verilog import EmittedVerilog, Reset, emit
from xpulpnn_sim.cli import prove_modules
from xpulpnn_sim.cli.main import execute_command
from xpulpnn_sim.proofs.emitter.emission import elaborate, emission_sources, prove_emission
from xpulpnn_sim.proofs.engine.outcomes import Outcome
from xpulpnn_sim.proofs.units.unit_proof import DIFFERENT, EQUAL

pytestmark = pytest.mark.flow


class Words(wiring.Component):
    """Four words that are written one at a time, and a counter of what is done to them."""

    index: In(2)
    write: In(1)
    kind: In(3)
    data: In(8)
    word: Out(8)
    count: Out(4)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        words = [Signal(8, name=f"word{number}", init=16 + number) for number in range(4)]
        m.d.comb += self.word.eq(Array(words)[self.index])
        value = Signal(8)
        with m.Switch(self.kind):
            with m.Case("1--"):
                m.d.comb += value.eq(self.data)
            with m.Case("01-"):
                m.d.comb += value.eq(self.data.as_signed() >> 2)
            with m.Default():
                m.d.comb += value.eq(self.data[1:7] + self.word)
        with m.If(self.write):
            m.d.sync += self.count.eq(self.count + 1)
            for number, word in enumerate(words):
                with m.If(self.index == number):
                    m.d.sync += word.eq(value)
        return m


BY_HAND = """
module words(input clk, input rst, input [1:0] index, input write, input [2:0] kind, input [7:0] data,
             output [7:0] word, output reg [3:0] count);
    reg [7:0] stored [0:3];
    integer number;
    initial begin
        count = 4'd0;
        for (number = 0; number < 4; number = number + 1) stored[number] = 16 + number;
    end
    assign word = stored[index];
    reg [7:0] value;
    always @* begin
        casez (kind)
            3'b1??: value = data;
            3'b?1?: value = $signed(data) >>> 2;
            default: value = data[6:1] + word;
        endcase
    end
    always @(posedge clk) begin
        if (write) begin
            count <= count + 1;
            stored[index] <= value;
        end
        if (rst) begin
            count <= 4'd0;
            for (number = 0; number < 4; number = number + 1) stored[number] <= 16 + number;
        end
    end
endmodule
"""
"""The component as a person would write it: other names, an array with loops, priority among the cases."""


@cache
def words() -> EmittedVerilog:
    return emit(Words(), "words", config={})


def proved(design: EmittedVerilog, text: str = "", *, initial: bool = True) -> Outcome:
    """Outcome of the module, with another text or its own."""
    (elaborated,) = elaborate(emission_sources(replace(design, modules={"words": text or design.modules["words"]})))
    return prove_emission(elaborated, timeout_s=60, initial=initial)


def run(*options: str) -> int:
    return execute_command(["prove", "emitter", *options])


WORD = r"word(\d after the clock edge)?"
"""The output, or what is stored next where some words or bits still have the same next values."""


@pytest.mark.parametrize(
    ("old", "new", "signal"),
    [
        ("<= 16 + number", "<= 17 + number", WORD),
        ("stored[number] = 16", "stored[number] = 15", WORD),
        ("count = 4'd0", "count = 4'd1", r"initial value of count\[0\]"),
        (
            "number < 4; number = number + 1) stored[number] =",
            "number < 3; number = number + 1) stored[number] =",
            "word",
        ),
        ("count <= 4'd0", "count <= 4'd2", "count after the clock edge"),
        ("if (write) begin", "begin", "count after the clock edge"),
        ("data[6:1]", "data[7:2]", WORD),
        ("            3'b?1?: value = $signed(data) >>> 2;\n", "", "word"),
        ("posedge", "posedge", None),
        ("3'b?1?", "3'b01?", None),
        ("3'b?1?", "3'b??1", "word"),
        ("$signed(data) >>> 2", "data >>> 2", "word"),
        ("posedge", "negedge", "word"),
        ("default: value = data[6:1] + word", "default: value = 8'bx", "word"),
        ("word = stored[index]", "word = index[0] ? stored[{index[1], 1'b0}] : stored[{index[1], 1'b1}]", WORD),
    ],
)
def test_every_fault_is_found_with_a_signal(old: str, new: str, signal: str | None):
    assert BY_HAND.count(old) == 1
    outcome = proved(words(), BY_HAND.replace(old, new))
    if signal is None:
        assert (outcome.verdict, outcome.parts) == (EQUAL, ())
    else:
        assert outcome.verdict == DIFFERENT
        assert re.fullmatch(signal, outcome.facts["counterexample"]["signal"])


def test_a_missing_port_is_a_difference():
    missing = BY_HAND.replace("output [7:0] word,", "").replace("assign word", "wire [7:0] word; assign word")
    outcome = proved(words(), missing)
    assert (outcome.verdict, outcome.parts) == (DIFFERENT, ("port word of the module must be connected",))


def test_a_latch_is_refused():
    with pytest.raises(ToolError, match=r"^words must consist of operators and registers, not of \$dlatch "):
        proved(words(), re.sub(r" +default: .*\n", "", BY_HAND))


@pytest.mark.parametrize(("reset", "initial"), [("sync", True), ("async-low", True), ("async-low", False)])
def test_emitted_text_is_equal(reset: Reset, initial: bool):
    design = emit(Words(), "words", config={}, reset=reset, initial=initial)
    assert proved(design, initial=initial).verdict == EQUAL


def test_registers_that_are_reset_at_the_clock_edge_only_are_found():
    design = emit(Words(), "words", config={}, reset="async-low")
    late = design.modules["words"].replace("always @(posedge clk or negedge rst_n)", "always @(posedge clk)")
    assert late != design.modules["words"]
    assert proved(design, late).verdict == DIFFERENT


def test_modules_of_a_core(tmp_path: Path):
    report, modules = tmp_path / "report.json", ["core", "rvfi_tap", "reg_file", "lsu", "decoder"]
    options = "--separator", "_", "--set", "rvfi=true", "--modules", ",".join(modules), "--json", str(report)
    assert run("--preset", "ri5cy", *options) == 0
    records = read_results(report)
    assert {record["verdict"] for record in records} == {EQUAL}
    assert {record["module"] for record in records} == set(modules)
    assert all(record["counterexample"] is None for record in records)


def test_a_module_and_its_instance_with_resets_of_other_names():
    assert run("--top", "core-debug", "--reset", "async-low", "--modules", "core_debug,core") == 0


def test_command_fails_and_names_module_signal_and_case(monkeypatch, capsys):
    def faulty(*args: object, **options: object) -> EmittedVerilog:
        design = emit(Words(), "words", config={})
        return replace(design, modules={"words": BY_HAND.replace("data[6:1]", "data[7:2]")})

    monkeypatch.setattr(prove_modules, "emit_top", faulty)
    assert run() == 1
    shown = (
        rf"^words: different\n{WORD} is 0x\w+, must be 0x\w+ (\(no register of the Verilog is word0, .*\) )?when \w+=0x"
    )
    assert re.search(shown, capsys.readouterr().out, re.MULTILINE)
