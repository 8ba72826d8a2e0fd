"""The core between memories of any timing, and the stand-ins for multiplier and divider."""

from dataclasses import replace
from pathlib import Path

import pytest
from tests.rtl.replay import simulate

from xpulpnn.config import preset
from xpulpnn.core.div import Divider
from xpulpnn.core.mult import Mult, MultOp
from xpulpnn.errors import InputError
from xpulpnn_sim.proofs.riscv_formal.cutpoints import (
    IDLE_LOOPS,
    class_of,
    cut_commands,
    emit_cut_design,
    existing_wires,
    instruction_cutpoints,
)
from xpulpnn_sim.proofs.riscv_formal.hardware.altops import AltopsDivider, AltopsMult
from xpulpnn_sim.proofs.riscv_formal.hardware.rvfi_wrapper import RvfiWrapper
from xpulpnn_sim.proofs.riscv_formal.model_check import top_text
from xpulpnn_sim.proofs.riscv_formal.suite import ONE_WRITE, OWN, Check
from xpulpnn_sim.tools import probes
from xpulpnn_sim.tools.probes import CUT_WIRES
from xpulpnn_sim.tools.yosys import find_yosys

MASKS = {"mul": 0x11, "mulh": 0x22, "mulhsu": 0x33, "mulhu": 0x44, "div": 0x55, "divu": 0x66, "rem": 0x77, "remu": 0x88}
A, B = 0xF000_0003, 0x0000_0005
SUM, DIFFERENCE = 0xF000_0008, 0xEFFF_FFFE
PRODUCTS = {
    "mul": ({"op": MultOp.WORD}, SUM),
    "mulh": ({"op": MultOp.HIGH, "a_signed": 1, "b_signed": 1}, SUM),
    "mulhsu": ({"op": MultOp.HIGH, "a_signed": 1}, DIFFERENCE),
    "mulhu": ({"op": MultOp.HIGH}, SUM),
}
QUOTIENTS = {"div": (1, 0), "divu": (0, 0), "rem": (1, 1), "remu": (0, 1)}


def finished(unit, control: dict[str, object]) -> tuple[int, int]:
    """Result of an operation, and the cycles that it takes."""
    results: list[tuple[int, int]] = []

    async def bench(ctx):
        for name, value in control.items():
            ctx.set(getattr(unit.ctrl, name), value)
        ctx.set(unit.op_a, A)
        ctx.set(unit.op_b, B)
        ctx.set(unit.start, 1)
        ctx.set(unit.take, 1)
        cycles = 1
        while not ctx.get(unit.done):
            await ctx.tick()
            cycles += 1
        results.append((ctx.get(unit.result), cycles))

    simulate(unit, bench, clocked=True)
    return results[0]


@pytest.mark.flow
@pytest.mark.parametrize("name", PRODUCTS)
def test_products(name: str):
    control, value = PRODUCTS[name]
    result, cycles = finished(AltopsMult(MASKS), control)
    assert result == value ^ MASKS[name]
    assert cycles == finished(Mult(), control)[1]


@pytest.mark.parametrize("name", QUOTIENTS)
def test_quotients(name: str):
    signed, remainder = QUOTIENTS[name]
    control = {"signed": signed, "remainder": remainder}
    result, cycles = finished(AltopsDivider(MASKS), control)
    assert result == DIFFERENCE ^ MASKS[name]
    assert cycles == 3 < finished(Divider(), control)[1]


def retired(core: RvfiWrapper, program: dict[int, int]) -> list[dict[str, int]]:
    """Words of the port for each retirement; words of the program by their addresses, accesses to data fail."""
    retirements: list[dict[str, int]] = []
    names = [name for name in core.signature.members if name.startswith(("rvfi_", "csr_"))]

    async def bench(ctx):
        ctx.set(core.boot_addr, 0x100)
        for name in ("instr_gnt", "instr_answer", "data_gnt", "data_answer", "data_err"):
            ctx.set(getattr(core, name), 1)
        for _ in range(40):
            ctx.set(core.instr_rdata, program.get(ctx.get(core.bus_addr) & 0xFFFF_FFFF, 0x13))
            ctx.set(core.data_rdata, 0x8000_0000)
            if ctx.get(core.rvfi_valid):
                retirements.append({name: ctx.get(getattr(core, name)) for name in names})
            await ctx.tick()

    simulate(core, bench, clocked=True)
    return retirements


LUI, ADDI, CSRRW, SH, C_LI = 0x12345_0B7, 0x00110_113, 0x340090F3, 0x0020_9123, 0x4505


@pytest.mark.flow
def test_retirements():
    """lui x1, 0x12345; addi x2, x2, 1; csrrw x1, mscratch, x1; sh x2, 2(x1); c.li x10, 1."""
    program = {0x100: LUI, 0x104: ADDI, 0x108: CSRRW, 0x10C: SH, 0x110: C_LI}
    lui, addi, csrrw, sh, c_li, *_ = retired(RvfiWrapper(replace(preset("ri5cy"), rvfi=True)), program)
    assert (lui["rvfi_rd_addr"], lui["rvfi_rd_wdata"], lui["rvfi_rs1_addr"]) == (1, 0x1234_5000, 0)
    assert (addi["rvfi_rs1_addr"], addi["rvfi_rs2_addr"], addi["rvfi_rd_wdata"]) == (2, 0, 1)
    assert (csrrw["csr_addr"], csrrw["csr_wmask"], csrrw["csr_rdata"]) == (0x340, 0xFFFF_FFFF, 0)
    assert csrrw["csr_wdata"] == 0x1234_5000
    assert addi["csr_wmask"] == addi["csr_rmask"] == 0
    assert (sh["rvfi_trap"], sh["rvfi_mem_fault"], sh["rvfi_mem_fault_wmask"]) == (1, 1, 0b0011)
    assert (sh["rvfi_mem_wmask"], sh["rvfi_rd_addr"], sh["rvfi_mem_addr"]) == (0, 0, 2)
    # the handler is at the boot address: the program begins again
    assert c_li["rvfi_insn"] == LUI


@pytest.fixture(scope="module")
def design():
    return emit_cut_design(preset("xpulpnn"), MASKS)


def test_more_than_the_suite_knows():
    with pytest.raises(InputError, match=r"^qnt and requantise must be false for formal, not true$"):
        emit_cut_design(preset("xpulpnn2"), MASKS)
    with pytest.raises(InputError, match=r"^multiplier must be booth or inferred for formal, which replaces it, not"):
        emit_cut_design(replace(preset("xpulpnn3"), requantise=False, requantise_exact=False), MASKS)


def test_top():
    ports = [{"name": name, "direction": "input", "width": width} for name, width in (("clk", 1), ("irq", 32))]
    outputs = {"rvfi_valid": 1, "rvfi_order": 64, "two_writes": 1}
    ports += [{"name": name, "direction": "output", "width": width} for name, width in outputs.items()]
    check = Check(name="reg", checker="reg", cycle=9, assumed=(ONE_WRITE,), csr="mscratch")
    text = top_text(check, {"ports": ports})
    for line in (
        '`include "rvfi_reg_check.sv"',
        "`define RISCV_FORMAL_CSR_MSCRATCH",
        "input [0:0] core_rvfi_valid",
        "assign rvfi_valid = core_rvfi_valid;",
        "assign rvfi_order = {56'b0, core_rvfi_order[7:0]};",
        "assign rvfi_csr_mscratch_rdata = core_csr_addr == 12'h340 ? core_csr_rdata : 32'b0;",
        "assume (!core_two_writes);",
    ):
        assert line in text
    assert "irq" not in text
    own = replace(check, checker=OWN, assumed=(), csr="", body=("wire here;",))
    text = top_text(own, {"ports": ports})
    assert "wire here;" in text
    assert "_check" not in text


@pytest.mark.flow
def test_cuts_have_their_wires(design):
    """Every wire that is cut is in the largest core of the suite, so that a new name is noticed.

    With two products there are a second result and sum.
    """
    modules = design.modules
    wires = [f"{module}/{wire}" for cut in CUT_WIRES.values() for module in cut for wire in cut[module].split()]
    beyond = {"id_stage/wb__odd", "ex_stage/dotp2_result"}
    assert existing_wires(CUT_WIRES, modules) == [wire for wire in wires if wire not in beyond]
    assert existing_wires([IDLE_LOOPS], modules) == [*probes.IDLE_LOOPS]
    lines = cut_commands(["registers", "results", "forwarded results", IDLE_LOOPS], modules)
    assert "cutpoint reg_file/w:*mem2reg_rd*DATA" in lines
    # an input is free where it is used, an output for all who see it
    assert "cutpoint id_stage/w:ex_result" in lines
    assert lines[lines.index("connect -unset result") - 1] == "cd ex_stage"
    assert "connect -set lpcount1 32'h00000000" in lines


_ALIASED = """module prefetch_buffer(input a, input b, output wire copy, output wire used);
    wire first = a & b;
    assign copy = first;
    assign used = ~first;
endmodule
"""


@pytest.mark.flow
def test_a_wire_with_other_names_is_free(tmp_path: Path):
    """A cut signal is free for all who see it, also under the names that it is assigned to."""
    (tmp_path / "small.v").write_text(_ALIASED)
    cutpoints = cut_commands(["fetched words"], {"prefetch_buffer": _ALIASED})
    lines = ["read_verilog small.v", "hierarchy -top prefetch_buffer", "setattr -set keep 1 w:first", "techmap"]
    lines += ["opt_clean", *cutpoints, "setattr -unset keep", "opt_clean -purge"]
    # the cut wire has neither input in its cone, whatever it is called
    lines += ["select -assert-none o:* %ci* i:* %i", "write_rtlil small.il"]
    find_yosys().run("\n".join(lines), tmp_path, what="a cut", results=["small.il"])


def test_cut_classes():
    assert {class_of(instruction_cutpoints(name)) for name in ("add", "c_mv", "jal")} == {"operation"}
    assert class_of(instruction_cutpoints("c_beqz")) == class_of(instruction_cutpoints("bltu")) == "branch"
    assert class_of(instruction_cutpoints("c_lwsp")) == class_of(instruction_cutpoints("sb")) == "access"
    assert class_of(instruction_cutpoints("mulh")) == class_of(instruction_cutpoints("rem")) == "multiplication"
    assert class_of(("results",)) == "results"
