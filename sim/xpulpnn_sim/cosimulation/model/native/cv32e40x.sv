// CV32E40X with a coprocessor, and ports that the driver knows from our own core. Retirements are taken out of the WB
// stage; a bubble passes the stages with the cause that it was made for.
module xpulpnn_host (
  input logic clk,
  input logic rst,
  output logic instr__req,
  output logic [31:0] instr__addr,
  input logic instr__gnt,
  input logic instr__rvalid,
  input logic instr__err,
  input logic [31:0] instr__rdata,
  output logic data__req,
  output logic [31:0] data__addr,
  output logic data__we,
  output logic [3:0] data__be,
  output logic [31:0] data__wdata,
  input logic data__gnt,
  input logic data__rvalid,
  input logic data__err,
  input logic [31:0] data__rdata,
`ifdef XIF_OBI
  output logic obi__req,
  output logic [31:0] obi__addr,
  output logic obi__we,
  output logic [3:0] obi__be,
  output logic [31:0] obi__wdata,
  input logic obi__gnt,
  input logic obi__rvalid,
  input logic obi__err,
  input logic [31:0] obi__rdata,
`endif
  input logic [31:0] irq,
  input logic [31:0] boot_addr,
  input logic [31:0] hart_id,
  input logic fetch_enable,
  output logic irq_ack,
  output logic [4:0] irq_id,
  output logic core_sleep,
  output logic lost,
  output logic rvfi_valid,
  output logic [4:0] rvfi_wait,
  output logic [31:0] rvfi_insn,
  output logic [31:0] rvfi_pc_rdata,
  output logic [31:0] rvfi_pc_wdata,
  output logic rvfi_trap,
  output logic rvfi_intr,
  output logic [5:0] rvfi_cause,
  output logic [4:0] rvfi_rs1_addr,
  output logic [4:0] rvfi_rs2_addr,
  output logic [31:0] rvfi_rs1_rdata,
  output logic [31:0] rvfi_rs2_rdata,
  output logic rvfi_rd_we,
  output logic [4:0] rvfi_rd_addr,
  output logic [31:0] rvfi_rd_wdata,
  output logic [31:0] rvfi_mem_addr,
  output logic [3:0] rvfi_mem_rmask,
  output logic [3:0] rvfi_mem_wmask,
  output logic [31:0] rvfi_mem_rdata,
  output logic [31:0] rvfi_mem_wdata
);
  // The core needs a falling edge of its reset, and the inputs are constant before the first clock edge.
  logic started = 1'b0;
  always_ff @(posedge clk) started <= 1'b1;
  wire rst_ni = ~(rst & started);

  if_xif #(.X_NUM_RS(2), .X_ID_WIDTH(4)) xif ();

  xif_cv32e40x coprocessor (
`ifdef XIF_OBI
    .obi_req_o(obi__req),
    .obi_addr_o(obi__addr),
    .obi_gnt_i(obi__gnt),
    .obi_rvalid_i(obi__rvalid),
    .obi_err_i(obi__err),
    .obi_rdata_i(obi__rdata),
`endif
    .clk_i(clk),
    .rst_ni,
    .xif_issue_if(xif),
    .xif_commit_if(xif),
    .xif_mem_if(xif),
    .xif_mem_result_if(xif),
    .xif_result_if(xif)
  );
`ifdef XIF_OBI
  assign {obi__we, obi__be, obi__wdata} = {1'b0, 4'hF, 32'h0};
`endif

  cv32e40x_core #(.X_EXT(1), .X_NUM_RS(2), .X_ID_WIDTH(4)) core (
    .clk_i(clk),
    .rst_ni,
    .scan_cg_en_i(1'b0),
    .boot_addr_i(boot_addr),
    .dm_exception_addr_i('0),
    .dm_halt_addr_i('0),
    .mhartid_i(hart_id),
    .mimpid_patch_i('0),
    .mtvec_addr_i({boot_addr[31:8], 8'h0}),
    .instr_req_o(instr__req),
    .instr_gnt_i(instr__gnt),
    .instr_rvalid_i(instr__rvalid),
    .instr_addr_o(instr__addr),
    .instr_memtype_o(),
    .instr_prot_o(),
    .instr_dbg_o(),
    .instr_rdata_i(instr__rdata),
    .instr_err_i(instr__err),
    .data_req_o(data__req),
    .data_gnt_i(data__gnt),
    .data_rvalid_i(data__rvalid),
    .data_addr_o(data_addr),
    .data_be_o(data__be),
    .data_we_o(data__we),
    .data_wdata_o(data__wdata),
    .data_memtype_o(),
    .data_prot_o(),
    .data_dbg_o(),
    .data_atop_o(),
    .data_rdata_i(data__rdata),
    .data_err_i(data__err),
    .data_exokay_i(1'b1),
    .mcycle_o(),
    .xif_compressed_if(xif),
    .xif_issue_if(xif),
    .xif_commit_if(xif),
    .xif_mem_if(xif),
    .xif_mem_result_if(xif),
    .xif_result_if(xif),
    .irq_i(irq),
    .wu_wfe_i(1'b0),
    .clic_irq_i(1'b0),
    .clic_irq_id_i('0),
    .clic_irq_level_i('0),
    .clic_irq_priv_i('0),
    .clic_irq_shv_i(1'b0),
    .fencei_flush_req_o(),
    .fencei_flush_ack_i(1'b1),
    .debug_req_i(1'b0),
    .debug_havereset_o(),
    .debug_running_o(),
    .debug_halted_o(),
    .fetch_enable_i(fetch_enable),
    .core_sleep_o(core_sleep)
  );
  logic [31:0] data_addr;
  assign data__addr = {data_addr[31:2], 2'b00};
  assign irq_ack = core.irq_ack;
  assign irq_id = core.irq_id[4:0];

  // The next address is known in ID for jumps and mret, and in EX for branches.
  wire to_ex = core.id_valid & core.ex_ready;
  wire to_wb = core.ex_valid & core.wb_ready;
  wire jumps = core.controller_i.controller_fsm_i.jump_in_id;
  wire branches = core.id_ex_pipe.alu_en & core.id_ex_pipe.alu_bch & core.branch_decision_ex;
  wire [31:0] jump_target = core.sys_mret_insn_id ? core.mepc : core.jump_target_id;
  logic [31:0] next_ex, next_wb, address_wb, stored_wb;
  logic [73:0] sources_ex;
  logic [3:0] loads_wb, stores_wb;
  wire [3:0] lanes = core.id_ex_pipe.lsu_size == 2'd0 ? 4'h1 : core.id_ex_pipe.lsu_size == 2'd1 ? 4'h3 : 4'hF;
  always_ff @(posedge clk) begin
    if (to_ex) begin
      next_ex <= jumps ? jump_target : core.if_id_pipe.pc + (core.if_id_pipe.instr_meta.compressed ? 2 : 4);
      sources_ex <= {core.id_stage_i.instr[24:15], core.id_stage_i.operand_b_fw, core.id_stage_i.operand_a_fw};
    end
    if (to_wb) begin
      {rvfi_rs2_addr, rvfi_rs1_addr, rvfi_rs2_rdata, rvfi_rs1_rdata} <= sources_ex;
      next_wb <= branches ? core.branch_target_ex : next_ex;
      address_wb <= core.load_store_unit_i.trans.addr;
      stored_wb <= core.id_ex_pipe.operand_c;
      loads_wb <= core.id_ex_pipe.lsu_en & ~core.id_ex_pipe.lsu_we ? lanes : 4'h0;
      stores_wb <= core.id_ex_pipe.lsu_en & core.id_ex_pipe.lsu_we ? lanes : 4'h0;
    end
  end

  // Issue 941: an instruction that a coprocessor accepts while EX is not ready may have taken an old operand, and its
  // result is not written.
  wire accepted = xif.issue_valid & xif.issue_ready & xif.issue_resp.accept;
  wire [63:0] sources_id = {core.id_stage_i.operand_b_fw, core.id_stage_i.operand_a_fw};
  logic waits_id, stale_ex, stale_wb;
  logic [63:0] taken;
  always_ff @(posedge clk) begin
    waits_id <= (accepted | waits_id) & ~to_ex & ~core.ctrl_fsm.kill_id & ~rst;
    if (accepted) taken <= sources_id;
    if (to_ex) stale_ex <= waits_id & taken != sources_id;
    if (to_wb) stale_wb <= stale_ex;
  end
  assign lost = rvfi_valid & ~rvfi_trap & core.ex_wb_pipe.xif_en & core.ex_wb_pipe.xif_meta.accepted &
      (stale_wb | xif.result.we & |xif.result.rd & ~core.rf_we_wb);

  logic interrupted;
  logic [4:0] line;
  always_ff @(posedge clk) begin
    if (irq_ack) line <= irq_id;
    interrupted <= ~rst & (irq_ack | interrupted & ~rvfi_valid);
  end

  assign rvfi_valid = core.wb_valid & (core.last_op_wb | core.abort_op_wb) & ~rst;
  assign rvfi_insn = core.ex_wb_pipe.instr.bus_resp.rdata;
  assign rvfi_pc_rdata = core.ex_wb_pipe.pc;
  assign rvfi_pc_wdata = rvfi_trap ? core.if_stage_i.branch_addr_n : {next_wb[31:1], 1'b0};
  assign rvfi_trap = core.ctrl_fsm.exception_in_wb;
  assign rvfi_intr = interrupted;
  assign rvfi_cause = rvfi_trap ? core.ctrl_fsm.csr_cause.exception_code[5:0] : interrupted ? {1'b1, line} : 6'h0;
  assign rvfi_rd_we = core.rf_we_wb & ~rvfi_trap;
  assign rvfi_rd_addr = core.rf_waddr_wb;
  assign rvfi_rd_wdata = core.rf_wdata_wb;
  assign rvfi_mem_addr = address_wb;
  assign rvfi_mem_rmask = rvfi_trap ? 4'h0 : loads_wb;
  assign rvfi_mem_wmask = rvfi_trap ? 4'h0 : stores_wb;
  assign rvfi_mem_rdata = core.lsu_rdata_wb & {{16{loads_wb[3]}}, {8{loads_wb[1]}}, {8{loads_wb[0]}}};
  assign rvfi_mem_wdata = stored_wb;

  // Cause of a cycle without a retirement, as WaitCause numbers them.
  localparam logic [4:0] START = 1, FETCH = 2, JUMP = 3, BRANCH = 4, TRAP = 5, LOAD_USE = 6, JUMP_REGISTER = 7,
      MULTICYCLE = 9, MISALIGNED = 10, GRANT = 11, RESPONSE = 12, CSR = 13, SYNC = 15, SLEEP = 16;
  logic [4:0] fetches, bubble_id, bubble_ex, bubble_wb, cause_id, cause_ex;
  always_comb begin
    if (~core.if_id_pipe.instr_valid) cause_id = bubble_id;
    else if (core.ctrl_fsm.kill_id) cause_id = branches ? BRANCH : TRAP;
    else if (core.ctrl_byp.load_stall) cause_id = LOAD_USE;
    else if (core.ctrl_byp.jalr_stall) cause_id = JUMP_REGISTER;
    else if (core.ctrl_byp.wfi_wfe_stall) cause_id = SYNC;
    else if (core.ctrl_byp.csr_stall) cause_id = CSR;
    else cause_id = MULTICYCLE;
    if (~core.id_ex_pipe.instr_valid) cause_ex = bubble_ex;
    else if (core.ctrl_fsm.kill_ex) cause_ex = TRAP;
    else if (core.ctrl_fsm.halt_ex) cause_ex = CSR;
    else if (core.id_ex_pipe.lsu_en) cause_ex = GRANT;
    else cause_ex = MULTICYCLE;
    if (core_sleep) rvfi_wait = SLEEP;
    else if (~core.ex_wb_pipe.instr_valid) rvfi_wait = bubble_wb;
    else if (core.wb_valid) rvfi_wait = MISALIGNED;
    else if (core.ex_wb_pipe.lsu_en) rvfi_wait = RESPONSE;
    else rvfi_wait = core.ex_wb_pipe.xif_en ? MULTICYCLE : core.ctrl_fsm.kill_wb ? TRAP : SYNC;
  end
  always_ff @(posedge clk) begin
    if (rst) {fetches, bubble_id, bubble_ex, bubble_wb} <= {4{START}};
    else begin
      if (core.ctrl_fsm.pc_set) begin
        case (core.ctrl_fsm.pc_mux)
          cv32e40x_pkg::PC_BOOT: fetches <= START;
          cv32e40x_pkg::PC_JUMP: fetches <= JUMP;
          cv32e40x_pkg::PC_BRANCH: fetches <= BRANCH;
          cv32e40x_pkg::PC_WB_PLUS4: fetches <= SYNC;
          default: fetches <= TRAP;
        endcase
      end else if (core.if_valid) fetches <= FETCH;
      if (core.id_ready) bubble_id <= fetches;
      if (core.ex_ready) bubble_ex <= cause_id;
      if (core.wb_ready) bubble_wb <= cause_ex;
    end
  end
endmodule
