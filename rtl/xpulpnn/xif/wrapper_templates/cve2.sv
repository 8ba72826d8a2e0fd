module $wrapper #(
  parameter type x_issue_req_t = logic,
  parameter type x_issue_resp_t = logic,
  parameter type x_register_t = logic,
  parameter type x_commit_t = logic,
  parameter type x_result_t = logic
) (
  input  logic          clk_i,
  input  logic          rst_ni,
  input  logic          x_issue_valid_i,
  output logic          x_issue_ready_o,
  input  x_issue_req_t  x_issue_req_i,
  output x_issue_resp_t x_issue_resp_o,
  input  x_register_t   x_register_i,
  input  logic          x_commit_valid_i,
  input  x_commit_t     x_commit_i,
  output logic          x_result_valid_o,
  input  logic          x_result_ready_i,
  output x_result_t     x_result_o$obi_ports
);
  logic accept, writeback, we;
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
    .commit__valid(x_commit_valid_i), .commit__id(x_commit_i.id), .commit__kill(x_commit_i.commit_kill),
    .result__valid(x_result_valid_o), .result__ready(x_result_ready_i), .result__id(id), .result__data(data),
    .result__rd(rd), .result__we(we), .result__exc(), .result__exccode()$obi_pins
  );
endmodule
