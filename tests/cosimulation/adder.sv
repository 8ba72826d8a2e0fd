// A coprocessor for tests: custom-0 is the sum of rs1 and rs2, two cycles after its issue; nothing else is accepted.
module xif_cv32e40x (
  input logic clk_i,
  input logic rst_ni,
  if_xif.coproc_issue xif_issue_if,
  if_xif.coproc_commit xif_commit_if,
  if_xif.coproc_mem xif_mem_if,
  if_xif.coproc_mem_result xif_mem_result_if,
  if_xif.coproc_result xif_result_if
);
  localparam logic [6:0] CUSTOM_0 = 7'h0b;
  typedef struct packed {
    logic committed;
    logic late;
    logic [3:0] id;
    logic [4:0] rd;
    logic [31:0] sum;
  } entry_t;
  entry_t [3:0] queue;  // oldest first
  logic [2:0] count;
  wire offered = xif_issue_if.issue_req.instr[6:0] == CUSTOM_0;
  assign xif_issue_if.issue_ready = ~offered | ~count[2];
  assign xif_issue_if.issue_resp = '{accept: offered, writeback: offered, default: '0};
  assign xif_mem_if.mem_valid = 1'b0;
  assign xif_mem_if.mem_req = '0;
  assign xif_result_if.result_valid = |count & queue[0].committed & queue[0].late;
  assign xif_result_if.result = '{id: queue[0].id, data: queue[0].sum, rd: queue[0].rd, we: 1'b1, default: '0};

  always_ff @(posedge clk_i or negedge rst_ni) begin
    automatic entry_t [4:0] next = {entry_t'('0), queue};
    automatic logic [2:0] left = count;
    automatic logic hit = 1'b0;
    if (~rst_ni) begin
      queue <= '0;
      count <= '0;
    end else begin
      for (int at = 0; at < 4; at++) next[at].late = 1'b1;
      if (xif_commit_if.commit_valid) begin
        // a younger identifier discards what the core has dropped; what it never got is not in the queue
        for (int at = 0; at < 4; at++) begin
          if (~hit & at < left & ~next[at].committed & next[at].id == xif_commit_if.commit.id) begin
            hit = 1'b1;
            if (xif_commit_if.commit.commit_kill) begin
              for (int later = at; later < 4; later++) next[later] = next[later + 1];
              left -= 1;
            end else next[at].committed = 1'b1;
          end
        end
      end
      if (xif_result_if.result_valid & xif_result_if.result_ready) begin
        for (int at = 0; at < 4; at++) next[at] = next[at + 1];
        left -= 1;
      end
      if (xif_issue_if.issue_valid & xif_issue_if.issue_ready & offered) begin
        next[left[1:0]] = '{committed: 1'b0, late: 1'b0, id: xif_issue_if.issue_req.id,
            rd: xif_issue_if.issue_req.instr[11:7], sum: xif_issue_if.issue_req.rs[0] + xif_issue_if.issue_req.rs[1]};
        left += 1;
      end
      queue <= next[3:0];
      count <= left;
    end
  end
endmodule
