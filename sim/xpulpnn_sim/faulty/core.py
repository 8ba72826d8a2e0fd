"""Faults of the emitted core, each of which a check of riscv-formal must find."""

from dataclasses import dataclass

from xpulpnn.errors import ToolError


@dataclass(frozen=True, slots=True)
class CoreFault:
    """One wrong place."""

    name: str  # what goes wrong
    module: str  # module of the emitted Verilog
    right: str  # text that is in the module once, and what stands there instead
    wrong: str  # text that is in the module once, and what stands there instead
    check: str

    def applied(self, text: str) -> str:
        """The module's text with the fault; raises :class:`ToolError` unless the right text is there once."""
        if text.count(self.right) != 1:
            raise ToolError(f"{self.module} must have {self.right} once, not {text.count(self.right)} times")
        return text.replace(self.right, self.wrong)


_FORWARD = "(wb__we & (wb__addr == addr)) ? wb__data : stored"

CORE_FAULTS = (
    CoreFault("nothing is forwarded from EX", "operand_read", "ex_we & (ex_addr == addr)", "1'b0", "reg"),
    CoreFault("nothing is forwarded from WB", "operand_read", _FORWARD, "stored", "reg"),
    CoreFault(
        "no wait for a value being loaded", "operand_read", "~(ex_late_we & (ex_late_addr == addr))", "1'b1", "reg"
    ),
    CoreFault(
        "the third operand is the second",
        "id_stage",
        ".addr(insn__payload__word[11:7])",
        ".addr(insn__payload__word[24:20])",
        "registers",
    ),
    CoreFault(
        "x0 keeps what is written",
        "reg_file",
        "(rs1_addr == 5'h0) ? 32'h0 : x[rs1_addr]",
        "x[rs1_addr | {4'h0, ~(|rs1_addr)}]",
        "insn_add",
    ),
    CoreFault("lhu extends the sign", "lsu", "{16{wb_signed & aligned[15]}}", "{16{aligned[15]}}", "insn_lhu"),
    CoreFault("lb does not extend the sign", "lsu", "{24{wb_signed & aligned[7]}}", "24'h0", "insn_lb"),
    CoreFault("lh across words is one access", "lsu", "crosses = &byte_2;", "crosses = 1'b0;", "data"),
    CoreFault("the second access goes to the first word", "lsu", "{29'h0, second}", "30'h0", "data"),
    CoreFault(
        "bytes of a load in the wrong order",
        "lsu",
        "{data__rdata[7:0], low[31:8]}",
        "{low[7:0], low[31:8]}",
        "data",
    ),
    CoreFault(
        "a failed access stays under way",
        "lsu",
        "end else if (data__rvalid) begin\n            outstanding <= 1'b0;",
        "end else if (data__rvalid) begin\n            outstanding <= data__err;",
        "liveness",
    ),
    CoreFault(
        "c.addi4spn mixes two bits",
        "compressed_decoder",
        "{2'h0, word[10:7], word[12:11], word[5], word[6], 12'h41",
        "{2'h0, word[10:7], word[12:11], word[6], word[5], 12'h41",
        "insn_c_addi4spn",
    ),
    CoreFault(
        "c.srai shifts in zeros",
        "compressed_decoder",
        "{7'h20, word[6:2], 2'h1, word[9:7], 5'h15",
        "{7'h0, word[6:2], 2'h1, word[9:7], 5'h15",
        "insn_c_srai",
    ),
    CoreFault("lui loses a bit", "immediates", "imm = {word[31:12], 12'h0}", "imm = {word[31:13], 13'h0}", "insn_lui"),
    CoreFault(
        "backward branches go forward",
        "immediates",
        "offset = {{20{word[31]}}, word[7]",
        "offset = {20'h0, word[7]",
        "insn_beq",
    ),
    CoreFault("the link of a compressed jump", "immediates", "compressed ? 3'h2 : 3'h4", "3'h4", "insn_c_jalr"),
    CoreFault("unsigned comparisons are signed", "simd_comparator", "{32{~signed_}}", "32'h0", "insn_bltu"),
    CoreFault("csrrc sets", "csr_file", "csr__rdata & ~csr__wdata", "csr__rdata | csr__wdata", "csrw_mscratch"),
    CoreFault(
        "mepc loses a bit",
        "csr_file",
        "mepc_bits <= wdata[31:1];",
        "mepc_bits <= {1'b0, wdata[30:1]};",
        "csrc_any_mepc",
    ),
    CoreFault("mvendorid can be written", "csr_check", "legal = ~write;", "legal = 1'b1;", "csrw_mvendorid"),
    CoreFault("a redirect changes a waiting request", "prefetch_buffer", "(redirects & ~held)", "redirects", "obi"),
    CoreFault("a dropped word is taken", "prefetch_buffer", "instr__rvalid & ~dropped;", "instr__rvalid;", "bus_imem"),
    CoreFault(
        "a taken branch does not drop what is in ID",
        "if_stage",
        "else if (redirect) insn__valid <= 1'b0;\n        ",
        "",
        "pc_fwd",
    ),
    CoreFault(
        "an illegal word does nothing", "id_stage", "decoder_illegal | ((decoder_ctrl_csr", "((decoder_ctrl_csr", "ill"
    ),
    CoreFault("fetching stops after a redirect", "prefetch_buffer", "running <= 1'b1;", "running <= 1'b0;", "hang"),
    CoreFault(
        "the second word of an instruction may fail",
        "prefetch_buffer",
        "assign error = first_error | (unaligned & ~compressed & second_error);",
        "assign error = first_error;",
        "bus_imem_fault",
    ),
    CoreFault("a quotient is a product", "ex_stage", "result = div_result;", "result = mult_result;", "insn_div"),
)
"""What may be wrong in the core of the preset ri5cy."""
