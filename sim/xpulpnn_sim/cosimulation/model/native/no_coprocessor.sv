// A coprocessor that refuses every instruction.
module xif_cv32e40x (
  input logic clk_i,
  input logic rst_ni,
  if_xif.coproc_issue xif_issue_if,
  if_xif.coproc_commit xif_commit_if,
  if_xif.coproc_mem xif_mem_if,
  if_xif.coproc_mem_result xif_mem_result_if,
  if_xif.coproc_result xif_result_if
);
  assign xif_issue_if.issue_ready = 1'b1;
  assign xif_issue_if.issue_resp = '0;
  assign xif_mem_if.mem_valid = 1'b0;
  assign xif_mem_if.mem_req = '0;
  assign xif_result_if.result_valid = 1'b0;
  assign xif_result_if.result = '0;
endmodule
