"""Changes of a small unit: which of them make a difference, and where."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.abc_program import needs_abc

from xpulpnn.errors import ToolError
from xpulpnn_sim.proofs.engine.gate_graph import TRUE
from xpulpnn_sim.proofs.engine.solvers import find_case
from xpulpnn_sim.proofs.mutants.mutant_comparison import (
    ANY_STATE,
    CONSTRAINED,
    DIFFERENT,
    EQUIVALENT,
    OUTPUTS,
    REACHABLE,
    ROWS,
    UNCONSTRAINED,
    Handshake,
    InputCase,
    InputConstraints,
    MutantComparer,
    MutantComparison,
    StableInputs,
)
from xpulpnn_sim.proofs.mutants.mutated_gates import MutatedGates, read_mutated
from xpulpnn_sim.proofs.mutants.unobserved_registers import UnobservedRegisters
from xpulpnn_sim.tools.yosys import find_abc, find_yosys

pytestmark = [pytest.mark.flow, needs_abc]

# "less" adds nothing to z; the count goes 0, 2, 1, 0; "never" stays 0
UNIT = """
module unit(input clk, input [1:0] op, input [3:0] a, input [3:0] b, input req, input gnt, input ans, input rst,
            output [3:0] y, output [3:0] z, output [1:0] n, output w0, output w1, output w2);
    reg [1:0] count = 0;
    reg never = 0;
    wire less = a[3] > b[3];
    assign y = op == 0 ? a + b : op == 1 ? a & b : op == 2 ? ~b : a;
    assign z = (a ^ b) | {less, 3'b0};
    assign n = count;
    reg waits = 0, asked = 0, open = 0;
    reg [1:0] before = 0;
    assign w0 = waits & req & (op != before);
    assign w1 = asked < ans;
    assign w2 = req > (ans >= open);
    always @(posedge clk) begin
        count <= count == 0 || never ? 2'd2 : count - 2'd1;
        never <= never && a[0];
        waits <= ~rst & req & ~gnt;
        before <= op;
        asked <= rst ? 0 : asked ? 1 : req & gnt;
        open <= rst ? 0 : req & gnt ? 1 : ans ? 0 : open;
    end
endmodule
"""

SUM, OR_0, LESS, NEVER, ENDS, CHANGES_OP, TOO_EARLY, ANOTHER = range(1, 9)
CHANGES = {
    SUM: ("add", "inv -port Y -portbit 0"),
    OR_0: ("or", "inv -port A -portbit 2"),
    LESS: ("or", "const0 -port B -portbit 3"),
    NEVER: ("logic_or", "const0 -port B -portbit 0"),
    ENDS: ("logic_or", "const0 -port A -portbit 0"),
    CHANGES_OP: ("ne", "const0 -port Y -portbit 0"),
    TOO_EARLY: ("lt", "const0 -port Y -portbit 0"),
    ANOTHER: ("ge", "const1 -port Y -portbit 0"),
}
"""Cell and change of each mutant."""


def mutated(
    folder: Path, text: str, changes: Mapping[int, tuple[str, str]], more: str = "", **how: Any
) -> MutatedGates:
    """A unit with changes of cells of some kinds; the last cell of a kind counts."""
    (folder / "unit.v").write_text(text)
    script = f"read_verilog unit.v\nhierarchy -top unit\nproc\n{more}write_rtlil base.il\n"
    base = folder / "base.il"
    find_yosys().run(script, folder, what="unit", results=[base.name])
    cells = dict(re.findall(r"^  cell \$(\S+) (\S+)$", base.read_text(), re.MULTILINE)) | {"mem_v2": "first"}
    start = "mutate -module unit -cell"
    commands = {number: f"{start} {cells[kind]} -mode {change}" for number, (kind, change) in changes.items()}
    return read_mutated(base, "unit", commands, find_yosys(), **how)


def unit(folder: Path, text: str = UNIT, **how: Any) -> MutatedGates:
    return mutated(folder, text, dict(reversed(CHANGES.items())), **how)


@pytest.fixture(scope="module")
def gates(tmp_path_factory: pytest.TempPathFactory) -> MutatedGates:
    return unit(tmp_path_factory.mktemp("unit"))


def judge(gates: MutatedGates, number: int, *situations: InputCase, **environment: Any) -> MutantComparison:
    constraints = InputConstraints(situations, **environment)
    return MutantComparer(gates=gates, abc=find_abc(), timeout_s=10, constraints=constraints).compare(number)


THREE = InputCase({"op": {3}}, {"y"})


@pytest.mark.parametrize(
    ("number", "situations", "verdict", "scope", "signal", "cycles"),
    [
        (OR_0, [], DIFFERENT, OUTPUTS, "z[2]", 1),
        (ENDS, [], DIFFERENT, OUTPUTS, "n[0]", 2),
        (LESS, [], EQUIVALENT, UNCONSTRAINED, "", 0),
        (NEVER, [], EQUIVALENT, REACHABLE, "", 0),
        # outputs that nobody looks at; words that do not occur
        (SUM, [InputCase({}, {"z", "n"})], EQUIVALENT, CONSTRAINED, "", 0),
        (SUM, [InputCase({}, {"z", "y[1]"})], EQUIVALENT, CONSTRAINED, "", 0),
        (SUM, [InputCase({}, {"z", "y[0]"})], DIFFERENT, OUTPUTS, "y[0]", 1),
        (SUM, [InputCase({"op": {1, 2}}), THREE], EQUIVALENT, CONSTRAINED, "", 0),
        (SUM, [InputCase({"op[0]": {1}})], EQUIVALENT, CONSTRAINED, "", 0),
        (SUM, [InputCase({"op[1]": {0}})], DIFFERENT, OUTPUTS, "y[0]", 1),
    ],
)
def test_what_makes_a_difference(gates, number, situations, verdict, scope, signal, cycles):
    proof = judge(gates, number, *situations)
    assert (proof.verdict, proof.scope, proof.signal, len(proof.counterexample)) == (verdict, scope, signal, cycles)


def test_words_that_occur(gates: MutatedGates):
    proof = judge(gates, SUM, InputCase({"op": {1}}), InputCase({"op": {0}, "a": {9}}, {"y"}))
    assert (proof.verdict, proof.signal, proof.counterexample[-1].get("op", 0)) == (DIFFERENT, "y[0]", 0)
    assert proof.counterexample[-1]["a"] == 9


@pytest.mark.parametrize("number", CHANGES)
def test_without_a_difference_near_the_change_there_is_none(gates: MutatedGates, number: int):
    graph, changed = gates.graph, gates.changed(number)
    differs = graph.any(graph.xor(a, b) for _, a, b in gates.differences(number))
    assert find_case(find_abc(), graph, graph.and_(differs, changed ^ 1), timeout_s=10) is None
    # what is not inverted everywhere is in some cases what it was
    never = find_case(find_abc(), graph, changed ^ 1, timeout_s=10) is None
    assert never == (number == OR_0)


@pytest.mark.parametrize(
    ("number", "environment"),
    [
        (CHANGES_OP, {"stable": [StableInputs(("op",), "req", ("gnt",))]}),
        (TOO_EARLY, {"answered": [Handshake("req", "gnt", "ans")]}),
        (ANOTHER, {"exclusive": [Handshake("req", "gnt", "ans")]}),
        (CHANGES_OP, {"always": [[{"req": {0}}, {"op": {2}}], [{"a": {1, 2}}]]}),
    ],
)
def test_what_others_promise(gates: MutatedGates, number: int, environment: Mapping[str, Any]):
    proof = judge(gates, number, **environment)
    assert (proof.verdict, proof.scope) == (EQUIVALENT, REACHABLE)
    assert judge(gates, number).scope == OUTPUTS


def test_outputs_that_are_left_out(tmp_path: Path):
    gates = unit(tmp_path, ignored=["z", "w*"])
    assert judge(gates, OR_0).scope == UNCONSTRAINED
    assert judge(gates, TOO_EARLY).scope == UNCONSTRAINED
    assert judge(gates, SUM).verdict == DIFFERENT


def test_registers_without_a_value_after_reset(tmp_path: Path):
    gates = unit(tmp_path, UNIT.replace("reg never = 0;", "reg never;"))
    proof = judge(gates, ENDS)
    assert (proof.verdict, proof.scope) == (DIFFERENT, ANY_STATE)
    assert proof.signal.startswith("next count[")
    assert judge(gates, NEVER).verdict == DIFFERENT
    # that of a register that does not matter
    gates = unit(tmp_path, UNIT.replace("reg [1:0] before = 0;", "reg [1:0] before;"))
    assert judge(gates, NEVER).scope == REACHABLE
    assert judge(gates, ENDS).scope == ANY_STATE


def test_unknown_word(gates: MutatedGates):
    with pytest.raises(ToolError, match=r"^situations must name words of the unit, not opcode$"):
        judge(gates, SUM, InputCase({"opcode": {1}}))


# the data mean something while the mark is set, or whatever it is
UNREAD = """
module unit(input clk, input load, input [3:0] d, output [3:0] y);
    reg [3:0] data;
    reg mark = 0;
    assign y = {result};
    always @(posedge clk) begin
        mark <= load;
        data <= {{4{{load}}}} & d | {{4{{~load}}}} & data;
    end
endmodule
"""


@pytest.mark.parametrize(("result", "holds"), [("mark ? data : 0", True), ("data", False), ("mark ? 0 : data", False)])
def test_registers_may_differ_while_nothing_reads_them(tmp_path: Path, result: str, holds: bool) -> None:
    # the old data are lost without a load: one bit of ~load is always 0
    gates = mutated(tmp_path, UNREAD.format(result=result), {1: ("not", "const0 -port Y -portbit 0")})
    graph = gates.graph
    search = UnobservedRegisters(
        gates=gates,
        number=1,
        assumed=TRUE,
        observable=lambda bits: graph.any(graph.xor(a, b) for _, a, b in bits),
        solve=lambda literal: find_case(find_abc(), graph, literal, timeout_s=10),
    )
    assert search.holds() == holds
    assert (judge(gates, 1).verdict == EQUIVALENT) == holds


# all ports of a memory have one address; an output shows that of the second memory; rows of the third are not equal
MEMORIES = """
module unit(input clk, input [1:0] a, input [1:0] b, input [3:0] d, output reg [3:0] x, output reg [3:0] y,
            output reg [3:0] z, output [1:0] n);
    reg [3:0] first [0:3];
    reg [3:0] second [0:3];
    reg [3:0] third [0:3];
    wire [1:0] first_at = a ^ b, second_at = a & b, third_at = a | b;
    assign n = second_at;
    integer row;
    initial for (row = 0; row < 4; row = row + 1) third[row] = row;
    always @(posedge clk) begin
        first[first_at] <= d;
        second[second_at] <= d;
        third[third_at] <= d;
        x <= first[first_at];
        y <= second[second_at];
        z <= third[third_at];
    end
endmodule
"""

MOVES = {
    ("xor", "inv -port Y -portbit 1"): True,
    ("xor", "cnot0 -port Y -portbit 0 -ctrlbit 1"): True,
    ("xor", "cnot1 -port Y -portbit 0 -ctrlbit 1"): True,
    ("xor", "const1 -port Y -portbit 1"): False,
    ("and", "inv -port Y -portbit 1"): False,
    ("or", "inv -port Y -portbit 1"): False,
    ("mem_v2", "inv -port WR_ADDR -portbit 1"): False,
    ("mem_v2", "inv -port WR_DATA -portbit 1"): False,
}
"""Whether rows of a memory change places, by cell and change."""


def test_rows_of_a_memory_change_places(gates: MutatedGates, tmp_path: Path) -> None:
    changes = dict(enumerate(MOVES, 1))
    whole = mutated(tmp_path, MEMORIES, changes, "memory -nomap\n", whole_memories=True)
    assert [whole.moves_rows(number) for number in changes] == list(MOVES.values())
    judged = MutantComparer(gates=gates, abc=find_abc(), timeout_s=10, moves_rows=lambda number: number == ENDS)
    assert [judged.compare(number).scope for number in (ENDS, SUM)] == [ROWS, OUTPUTS]
