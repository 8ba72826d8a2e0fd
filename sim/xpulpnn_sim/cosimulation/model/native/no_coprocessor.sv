// A coprocessor that refuses every instruction.
module xpulpnn_xif_cv32e40x (
  input logic clk_i,
  input logic rst_ni,
  if_xif.coproc_issue issue_if,
  if_xif.coproc_commit commit_if,
  if_xif.coproc_mem mem_if,
  if_xif.coproc_mem_result mem_result_if,
  if_xif.coproc_result result_if
);
  assign issue_if.issue_ready = 1'b1;
  assign issue_if.issue_resp = '0;
  assign mem_if.mem_valid = 1'b0;
  assign mem_if.mem_req = '0;
  assign result_if.result_valid = 1'b0;
  assign result_if.result = '0;
endmodule
