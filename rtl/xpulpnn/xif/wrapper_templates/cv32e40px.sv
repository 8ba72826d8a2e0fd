module $wrapper #(
  parameter type x_issue_req_t = logic,
  parameter type x_issue_resp_t = logic,
  parameter type x_commit_t = logic,
  parameter type x_result_t = logic
) (
  input  logic          clk_i,
  input  logic          rst_ni,
  input  logic          x_issue_valid_i,
  output logic          x_issue_ready_o,
  input  x_issue_req_t  x_issue_req_i,
  output x_issue_resp_t x_issue_resp_o,
  input  logic          x_commit_valid_i,
  input  x_commit_t     x_commit_i,
  output logic          x_result_valid_o,
  input  logic          x_result_ready_i,
  output x_result_t     x_result_o$obi_ports
);
  logic accept, writeback;
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
    .commit__valid(x_commit_valid_i), .commit__id(x_commit_i.id), .commit__kill(x_commit_i.commit_kill),
    .result__valid(x_result_valid_o), .result__ready(x_result_ready_i), .result__id(id), .result__data(data),
    .result__rd(rd), .result__we(we), .result__exc(), .result__exccode()$obi_pins
  );
endmodule
