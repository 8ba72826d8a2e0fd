module $wrapper #(
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
