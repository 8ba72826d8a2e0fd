"""SystemVerilog wrappers between the flat ports of the coprocessor and the interface types of four cores.

Structures are type parameters, so that no wrapper needs the package of its core.
"""

from collections.abc import Mapping
from string import Template

from xpulpnn.errors import ConfigError
from xpulpnn.xif.config import XifConfig

_CV32E40X = """// The interface of the core; older releases call it if_xif.
`ifndef XPULPNN_IF_XIF
`define XPULPNN_IF_XIF cv32e40x_if_xif
`endif
module $wrapper (
  input logic clk_i,
  input logic rst_ni,
  `XPULPNN_IF_XIF.coproc_issue      xif_issue_if,
  `XPULPNN_IF_XIF.coproc_commit     xif_commit_if,
  `XPULPNN_IF_XIF.coproc_mem        xif_mem_if,
  `XPULPNN_IF_XIF.coproc_mem_result xif_mem_result_if,
  `XPULPNN_IF_XIF.coproc_result     xif_result_if$obi_ports
);
  logic accept, writeback, loadstore, we, exc, mem_valid, mem_last;
  logic [5:0] exccode;
  logic [31:0] mem_addr;
  logic [$id_top:0] mem_id;

  assign xif_issue_if.issue_resp = '{
    accept: accept, writeback: writeback, dualwrite: '0, dualread: '0, loadstore: loadstore, ecswrite: '0, exc: '0
  };
  assign xif_result_if.result.we = we;
  assign xif_result_if.result.ecsdata = '0;
  assign xif_result_if.result.ecswe = '0;
  assign xif_result_if.result.exc = exc;
  assign xif_result_if.result.exccode = exccode;
  assign xif_result_if.result.err = '0;
  assign xif_result_if.result.dbg = '0;
  assign xif_mem_if.mem_valid = mem_valid;
  // loads of whole words in machine mode
  assign xif_mem_if.mem_req = '{
    id: mem_id, addr: mem_addr, mode: 2'b11, we: '0, size: 3'b010, be: '1, attr: '0, wdata: '0, last: mem_last, spec: '0
  };
$no_memory
  $module coprocessor (
    .clk(clk_i), $reset,
    .issue__valid(xif_issue_if.issue_valid), .issue__ready(xif_issue_if.issue_ready),
    .issue__instr(xif_issue_if.issue_req.instr), .issue__id(xif_issue_if.issue_req.id),
    .issue__rs1(xif_issue_if.issue_req.rs[0]), .issue__rs2(xif_issue_if.issue_req.rs[1]),
    .issue__rs_valid(xif_issue_if.issue_req.rs_valid[1:0]),
    .issue__accept(accept), .issue__writeback(writeback), .issue__loadstore(loadstore),
    .commit__valid(xif_commit_if.commit_valid), .commit__id(xif_commit_if.commit.id),
    .commit__kill(xif_commit_if.commit.commit_kill),$memory_pins
    .result__valid(xif_result_if.result_valid), .result__ready(xif_result_if.result_ready),
    .result__id(xif_result_if.result.id), .result__data(xif_result_if.result.data),
    .result__rd(xif_result_if.result.rd), .result__we(we), .result__exc(exc), .result__exccode(exccode)$obi_pins
  );
endmodule
"""

# of cores whose ports are structures, with places for the operands
_PORTS = """module $wrapper #(
  parameter type x_issue_req_t = logic,
  parameter type x_issue_resp_t = logic,%s
  parameter type x_commit_t = logic,
  parameter type x_result_t = logic
) (
  input  logic          clk_i,
  input  logic          rst_ni,
  input  logic          x_issue_valid_i,
  output logic          x_issue_ready_o,
  input  x_issue_req_t  x_issue_req_i,
  output x_issue_resp_t x_issue_resp_o,%s
  input  logic          x_commit_valid_i,
  input  x_commit_t     x_commit_i,
  output logic          x_result_valid_o,
  input  logic          x_result_ready_i,
  output x_result_t     x_result_o$obi_ports
);
"""
_PINS = """    .commit__valid(x_commit_valid_i), .commit__id(x_commit_i.id), .commit__kill(x_commit_i.commit_kill),
    .result__valid(x_result_valid_o), .result__ready(x_result_ready_i), .result__id(id), .result__data(data),
    .result__rd(rd), .result__we(we), .result__exc(), .result__exccode()$obi_pins
  );
endmodule
"""

_CV32E40PX = (
    (_PORTS % ("", ""))
    + """  logic accept, writeback;
  logic we;
  logic [$id_top:0] id;
  logic [31:0] data;
  logic [4:0] rd;

  assign x_issue_resp_o = '{
    accept: accept, writeback: writeback, dualwrite: '0, dualread: '0, loadstore: '0, ecswrite: '0, exc: '0
  };
  assign x_result_o = '{
    id: id, data: data, rd: rd, we: we, ecsdata: '0, ecswe: '0, exc: '0, exccode: '0, err: '0, dbg: '0
  };

  $module coprocessor (
    .clk(clk_i), $reset,
    .issue__valid(x_issue_valid_i), .issue__ready(x_issue_ready_o),
    .issue__instr(x_issue_req_i.instr), .issue__id(x_issue_req_i.id),
    .issue__rs1(x_issue_req_i.rs[0]), .issue__rs2(x_issue_req_i.rs[1]), .issue__rs_valid(x_issue_req_i.rs_valid[1:0]),
    .issue__accept(accept), .issue__writeback(writeback), .issue__loadstore(),
"""
    + _PINS
)

_CVE2 = (
    (_PORTS % ("\n  parameter type x_register_t = logic,", "\n  input  x_register_t   x_register_i,"))
    + """  logic accept, writeback, we;
  logic [1:0] register_read;
  logic [$id_top:0] id;
  logic [31:0] data;
  logic [4:0] rd;

  // the core offers the operands with the instruction
  always_comb begin
    x_issue_resp_o = '0;
    x_issue_resp_o.accept = accept;
    x_issue_resp_o.writeback = writeback;
    x_issue_resp_o.register_read[1:0] = register_read;
  end
  // the core has one hart
  assign x_result_o = '{hartid: x_issue_req_i.hartid, id: id, data: data, rd: rd, we: we};

  $module coprocessor (
    .clk(clk_i), $reset,
    .issue__valid(x_issue_valid_i), .issue__ready(x_issue_ready_o),
    .issue__instr(x_issue_req_i.instr), .issue__id(x_issue_req_i.id),
    .issue__accept(accept), .issue__writeback(writeback), .issue__loadstore(), .issue__register_read(register_read),
    .register__valid(x_issue_valid_i), .register__ready(), .register__id(x_register_i.id),
    .register__rs1(x_register_i.rs[0]), .register__rs2(x_register_i.rs[1]),
    .register__rs_valid(x_register_i.rs_valid[1:0]),
"""
    + _PINS
)

_CVA6 = """module $wrapper #(
  parameter type cvxif_req_t = logic,
  parameter type cvxif_resp_t = logic
) (
  input  logic        clk_i,
  input  logic        rst_ni,
  input  cvxif_req_t  cvxif_req_i,
  output cvxif_resp_t cvxif_resp_o$obi_ports
);
  logic accept, writeback, we;
  logic [1:0] register_read;
  logic [$id_top:0] id;
  logic [31:0] data;
  logic [4:0] rd;

  always_comb begin
    // no compressed instructions
    cvxif_resp_o.compressed_ready = '1;
    cvxif_resp_o.compressed_resp = '0;
    cvxif_resp_o.issue_resp = '0;
    cvxif_resp_o.issue_resp.accept = accept;
    cvxif_resp_o.issue_resp.writeback = writeback;
    cvxif_resp_o.issue_resp.register_read[1:0] = register_read;
    // the core has one hart
    cvxif_resp_o.result = '{hartid: cvxif_req_i.issue_req.hartid, id: id, data: data, rd: rd, we: we};
  end

  $module coprocessor (
    .clk(clk_i), $reset,
    .issue__valid(cvxif_req_i.issue_valid), .issue__ready(cvxif_resp_o.issue_ready),
    .issue__instr(cvxif_req_i.issue_req.instr), .issue__id(cvxif_req_i.issue_req.id),
    .issue__accept(accept), .issue__writeback(writeback), .issue__loadstore(), .issue__register_read(register_read),
    .register__valid(cvxif_req_i.register_valid), .register__ready(cvxif_resp_o.register_ready),
    .register__id(cvxif_req_i.register.id), .register__rs1(cvxif_req_i.register.rs[0]),
    .register__rs2(cvxif_req_i.register.rs[1]), .register__rs_valid(cvxif_req_i.register.rs_valid[1:0]),
    .commit__valid(cvxif_req_i.commit_valid), .commit__id(cvxif_req_i.commit.id),
    .commit__kill(cvxif_req_i.commit.commit_kill),
    .result__valid(cvxif_resp_o.result_valid), .result__ready(cvxif_req_i.result_ready), .result__id(id),
    .result__data(data), .result__rd(rd), .result__we(we), .result__exc(), .result__exccode()$obi_pins
  );
endmodule
"""

_OBI_PORTS = """,
  output logic        obi_req_o,
  input  logic        obi_gnt_i,
  output logic [31:0] obi_addr_o,
  input  logic        obi_rvalid_i,
  input  logic [31:0] obi_rdata_i,
  input  logic        obi_err_i"""

_OBI_PINS = """,
    .obi__req(obi_req_o), .obi__gnt(obi_gnt_i), .obi__addr(obi_addr_o), .obi__rvalid(obi_rvalid_i),
    .obi__rdata(obi_rdata_i), .obi__err(obi_err_i)"""

_MEMORY_PINS = """
    .mem__valid(mem_valid), .mem__ready(xif_mem_if.mem_ready), .mem__id(mem_id), .mem__addr(mem_addr),
    .mem__last(mem_last), .mem__exc(xif_mem_if.mem_resp.exc), .mem__exccode(xif_mem_if.mem_resp.exccode),
    .mem_result__valid(xif_mem_result_if.mem_result_valid), .mem_result__id(xif_mem_result_if.mem_result.id),
    .mem_result__rdata(xif_mem_result_if.mem_result.rdata), .mem_result__err(xif_mem_result_if.mem_result.err),"""

_NO_MEMORY = """  assign mem_valid = '0;
  assign mem_id = '0;
  assign mem_addr = '0;
  assign mem_last = '0;
"""

WRAPPERS: Mapping[str, str] = {"cv32e40x": _CV32E40X, "cv32e40px": _CV32E40PX, "cve2": _CVE2, "cva6": _CVA6}
"""Templates of wrappers by core, which has a configuration of the same name."""


def wrapper(host: str, config: XifConfig, module: str, *, is_async: bool = False, separator: str = "__") -> str:
    """Return the wrapper ``<module>_<host>`` of the coprocessor ``module``; ``is_async`` if its reset is ``rst_n``.

    Raises :class:`ConfigError` if the core has another version of the interface, or no memory interface to use.
    """
    versions = {"cv32e40x": "0.2", "cv32e40px": "0.2", "cve2": "1.0", "cva6": "1.0"}
    if config.version != versions[host]:
        raise ConfigError(f"version must be {versions[host]} for {host}, not {config.version}")
    by_core, by_port = config.memory == "xif", config.memory == "obi"
    if by_core and host != "cv32e40x":
        raise ConfigError(f"memory must be none or obi for {host}, not {config.memory}")
    text = Template(WRAPPERS[host]).substitute(
        wrapper=f"{module}_{host}",
        module=module,
        reset=".rst_n(rst_ni)" if is_async else ".rst(~rst_ni)",
        id_top=config.id_bits - 1,
        obi_ports=_OBI_PORTS if by_port else "",
        obi_pins=_OBI_PINS if by_port else "",
        memory_pins=_MEMORY_PINS if by_core else "",
        no_memory="" if by_core else _NO_MEMORY,
    )
    return text.replace("__", separator)
