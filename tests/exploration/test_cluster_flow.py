"""Clusters mapped part by part: sums, memories apart, and the path of a grant, on a cluster of two small cores."""

import re
from itertools import combinations, product

import pytest
from tests.exploration import sample_results

from xpulpnn.config import ClusterConfig
from xpulpnn_sim.exploration.asic import AsicFlow
from xpulpnn_sim.exploration.cluster_flow import ClusterFlow, extract_module, join_netlists, part_instances
from xpulpnn_sim.exploration.liberty import Expression
from xpulpnn_sim.exploration.library import Library
from xpulpnn_sim.exploration.mapped_netlist import MappedGate, MappedNetlist
from xpulpnn_sim.exploration.placement import Placer
from xpulpnn_sim.exploration.results import EmittedDesign
from xpulpnn_sim.tools.netlists import NetlistCell, sort_gates

VERILOG = """
module bank (
    input clk, input en, input we, input [2:0] addr, input [3:0] wdata, output reg [3:0] rdata
);
    reg [3:0] words [0:7];
    always @(posedge clk) if (en & we) words[addr] <= wdata;
    always @(posedge clk) if (en) rdata <= words[addr];
endmodule

module tcdm (
    input clk, input [1:0] req, input [2:0] addr0, input [2:0] addr1, output [1:0] gnt, output [3:0] rdata
);
    assign gnt = {req[1] & (~req[0] | addr1[2]), req[0] & ~(req[1] & addr1[2])};
    wire [2:0] addr = gnt[0] ? addr0 : addr1;
    bank bank0 (.clk(clk), .en(|gnt), .we(addr[2]), .addr(addr), .wdata({addr, 1'b1}), .rdata(rdata));
endmodule

module core (
    input clk, input rst, input hart, output data__req, output [2:0] data__addr, input data__gnt,
    input [3:0] data__rdata
);
    reg [2:0] pc;
    reg [3:0] sum;
    assign data__req = ~sum[3] | hart;
    assign data__addr = pc + sum[2:0];
    always @(posedge clk)
        if (rst) {pc, sum} <= 7'd0;
        else if (data__gnt) {pc, sum} <= {pc + 3'd1, sum ^ data__rdata};
endmodule

module cluster (
    input clk, input rst, output [1:0] granted
);
    wire [1:0] req, gnt;
    wire [2:0] addr0, addr1;
    wire [3:0] rdata;
    reg [1:0] seen;
    core core0 (.clk(clk), .rst(rst), .hart(1'b0),
        .data__req(req[0]), .data__addr(addr0), .data__gnt(gnt[0]), .data__rdata(rdata));
    core core1 (.clk(clk), .rst(rst), .hart(1'b1),
        .data__req(req[1]), .data__addr(addr1), .data__gnt(gnt[1]), .data__rdata(rdata));
    tcdm tcdm (.clk(clk), .req(req), .addr0(addr0), .addr1(addr1), .gnt(gnt), .rdata(rdata));
    always @(posedge clk) seen <= gnt;
    assign granted = seen;
endmodule
"""

MODULES = {
    "cluster": ("test.Cluster", {"core0": "core", "core1": "core", "tcdm": "tcdm"}),
    "core": ("xpulpnn.core.core.Core", {}),
    "tcdm": ("xpulpnn.cluster.tcdm.tcdm.Tcdm", {"bank0": "bank"}),
    "bank": ("xpulpnn.cells.memory.SinglePortMemory", {}),
}


@pytest.fixture(scope="module")
def design() -> EmittedDesign:
    modules = {name: {"component": kind, "instances": inner} for name, (kind, inner) in MODULES.items()}
    modules["bank"]["ports"] = [{"name": "port__addr", "width": 3}, {"name": "port__wdata", "width": 4}]
    hierarchy = {"cluster": "cluster", "cluster.core0": "core", "cluster.core1": "core", "cluster.tcdm": "tcdm"}
    hierarchy["cluster.tcdm.bank0"] = "bank"
    return sample_results.design(VERILOG, "cluster", ClusterConfig(), modules=modules, hierarchy=hierarchy)


def test_parts_are_cut_out_of_the_text(design: EmittedDesign) -> None:
    assert part_instances(design) == {"core0": "core", "core1": "core", "tcdm": "tcdm"}
    memory, rest = extract_module(design, "tcdm"), extract_module(design, "cluster", frozenset({"core", "tcdm"}))
    assert (memory.module, memory.memories, memory.black_boxes) == ("tcdm", ("bank",), frozenset())
    assert re.findall(r"^module (\w+)", memory.verilog, re.MULTILINE) == ["bank", "tcdm"]
    assert memory.manifest["hierarchy"] == {"tcdm": "tcdm", "tcdm.bank0": "bank"}
    assert (rest.memories, rest.black_boxes) == ((), {"core", "tcdm"})
    assert "assign gnt" not in rest.verilog
    assert "pc <=" not in rest.verilog
    assert rest.verilog.count("(* blackbox *)") == 2


@pytest.mark.flow
@pytest.mark.usefixtures("own_cache")
def test_areas_are_the_sums_of_the_parts_and_paths_go_through_all(library: Library, design: EmittedDesign) -> None:
    output = ClusterFlow(AsicFlow(library, "builtin", "area", keep=True)).run(design)
    result = output.result
    netlists = (output.files[f"{name}/mapped.v"] for name in ("core", "tcdm", "cluster"))
    core, tcdm, rest = (sample_results.mapped_ge(netlist, library) for netlist in netlists)
    # 32 flip-flops of the default table, whose NAND2 has 7.2576 um2: eight words of one bit take 766.5 um2
    (bank,) = result.memories
    assert (bank.name, bank.count, bank.words, bank.bits, bank.macro, bank.macros) == ("bank", 1, 8, 4, "registers", 4)
    memory = 4 * 766.5 / 7.2576
    assert result.area_kge == pytest.approx((2 * core + tcdm + rest + memory) / 1e3)
    # registers: 7 of each core, 2 of the top; the bank has its own
    assert result.flip_flops == 16
    areas = {module.path: module for module in result.modules}
    assert next(iter(areas)) == "cluster"
    assert areas["cluster.core0"].total_ge == areas["cluster.core1"].total_ge == pytest.approx(core)
    assert areas["cluster.memories"].total_ge == areas["cluster.memories.bank"].own_ge == pytest.approx(memory)
    assert areas["cluster"].total_ge == pytest.approx(1e3 * (result.area_kge or 0))
    assert sum(module.own_ge for module in result.modules) == pytest.approx(1e3 * (result.area_kge or 0))
    assert sum(result.origins.values()) == pytest.approx(1)
    assert any("2 x core" in line for line in result.conditions)
    path, grant = result.path, result.grant
    assert 0 < grant.request_ps < grant.grant_ps < grant.path.delay_ps <= path.delay_ps
    assert grant.fo4 == pytest.approx(grant.path.delay_ps / library.fo4_ps)
    assert grant.path.start.startswith(("core0.", "core1."))
    assert grant.path.end.startswith(("core0.", "core1."))
    assert grant.path.steps[-1].arrival_ps == grant.path.delay_ps
    assert sum(step.delay_ps for step in grant.path.steps) == pytest.approx(grant.path.delay_ps, rel=0.1)
    # OpenSTA, where it is installed, times the same netlist
    assert all(other == pytest.approx(path.delay_ps, rel=0.01) for other in path.others.values())


def net_values(netlist: MappedNetlist, known: dict[str, bool]) -> dict[str, bool]:
    """Values of the outputs of a netlist without registers."""
    values = {netlist.inputs[name]: value for name, value in known.items()} | {0: False, 1: True}
    for gate in sort_gates(netlist.gates, lambda gate: gate.read, lambda gate: gate.driven):
        for pin in gate.cell.outputs:
            names = [input_pin.name for input_pin in gate.cell.inputs]
            table = Expression(pin.function).truth_table(names)
            row = sum(values[gate.pins[name]] << place for place, name in enumerate(names))
            values[gate.pins[pin.name]] = bool(table >> row & 1)
    return {name: values[net] for name, net in netlist.outputs.items()}


def test_an_assembly_computes_what_its_parts_do(library: Library) -> None:
    """Two instances of a NAND beside a wire: the second takes the first's results and a constant."""
    nand = library.cells["NAND2_X1"]
    pair = MappedNetlist(
        module="pair",
        gates=[MappedGate("g", "", nand, {"A": 2, "B": 3, "Y": 4})],
        inputs={"a": 2, "b[0]": 3, "b[1]": 5},
        outputs={"y": 4, "z": 5},
        names={2: "a", 3: "b[0]", 4: "y", 5: "b[1]"},
        wires_ff={2: 1.0, 3: 2.0, 4: 4.0, 5: 8.0},
    )

    def instance(name: str, a: int, b: list[int], y: int, z: int) -> NetlistCell:
        pins = {"a": [a], "b": b, "y": [y], "z": [z]}
        return NetlistCell(name=name, type="pair", pins=pins, parameters={}, outputs=frozenset({"y", "z"}))

    unmapped = [instance("one", 2, [3, 4], 5, 6), instance("two", 5, [6, 1], 7, 8)]
    ports = {"one.y": 5, "one.z": 6, "two.y": 7, "two.z": 8}
    pins = {"one.a": 2, "one.b[0]": 3, "one.b[1]": 4, "two.a": 5, "two.b[0]": 6, "two.b[1]": 1}
    top = MappedNetlist(
        module="top",
        gates=[],
        inputs={"p": 2, "q": 3, "r": 4, **ports},
        outputs={"s": 7, "t": 8, "u": 6, **pins},
        names={net: f"net{net}" for net in range(2, 9)},
        unmapped=unmapped,
    )
    netlist, nets = join_netlists(top, {"pair": pair})
    assert set(netlist.inputs) == {"p", "q", "r"}
    for p, q, r in product((False, True), repeat=3):
        values = net_values(netlist, {"p": p, "q": q, "r": r})
        assert values == {"s": not (not (p and q) and r), "t": True, "u": r}
    assert [gate.path for gate in netlist.gates] == ["one", "two"]
    assert nets["one.y"] == nets["two.a"]
    assert netlist.names[nets["two.a"]] == "net5"
    # wires of joined nets add up; those of constants count nowhere
    assert netlist.wires_ff[nets["one.y"]] == 4.0 + 1.0
    assert sum(netlist.wires_ff.values()) == 2 * (1.0 + 2.0 + 4.0 + 8.0) - 8.0


@pytest.mark.flow
@pytest.mark.usefixtures("own_cache")
def test_parts_are_placed_on_a_floorplan(library: Library, design: EmittedDesign) -> None:
    pytest.importorskip("coloquinte")
    wired = library.with_placement(Placer(row_um=3.0, wire_ff_um=0.5))
    output = ClusterFlow(AsicFlow(wired, "builtin", "area", keep=True)).run(design)
    result, placed = output.result, output.result.placement
    assert {block.name for block in placed.blocks} == {"core0", "core1", "tcdm", "rest", "tcdm.bank0"}
    for one, other in combinations(placed.blocks, 2):
        beside = one.x_um >= other.x_um + other.width_um or other.x_um >= one.x_um + one.width_um
        assert beside or one.y_um >= other.y_um + other.height_um or other.y_um >= one.y_um + one.height_um
    # data__rdata of four bits, requests and grants; the bank also has an enable
    nets = {wires.between: wires.nets for wires in placed.wires}
    assert nets["core, tcdm"] + nets["core, rest, tcdm"] == 2 * 3 + 2 + 2
    assert nets["tcdm, tcdm.bank"] >= 1 + 3
    assert placed.wireless_ps < min(placed.unsized_ps, result.delay_ps)
    assert result.grant.path.delay_ps <= result.path.delay_ps
    # OpenSTA, where it is installed, reads the same wires
    assert all(other == pytest.approx(result.delay_ps, rel=0.02) for other in result.path.others.values())
    plain = ClusterFlow(AsicFlow(library, "builtin", "area", keep=True)).run(design).result
    assert result.area_kge > plain.area_kge
    assert sum(module.own_ge for module in result.modules) == pytest.approx(1e3 * result.area_kge)
    assert result.modules[0].total_ge == pytest.approx(1e3 * result.area_kge)
    assert result.flip_flops == plain.flip_flops
