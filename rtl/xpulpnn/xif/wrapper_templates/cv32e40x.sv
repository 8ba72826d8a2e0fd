// The interface of the core; older releases call it if_xif.
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
