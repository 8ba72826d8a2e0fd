// CV32E40X with the coprocessor, and two memories: instructions, and data for the core and the coprocessor's own port.
// The core begins at address 0; data begin at 0x00100000. A word written to 0x00200000 ends the simulation.
module system #(
  parameter string INSTRUCTIONS = "",
  parameter string DATA = ""
);
  localparam int WORDS = 16384;
  logic [31:0] text[WORDS], data[WORDS];
  initial begin
    $readmemh(INSTRUCTIONS, text);
    $readmemh(DATA, data);
  end

  logic clk = 0, rst_n = 1;
  always #5 clk = ~clk;
  initial begin
    // the core wants a falling edge of its reset
    #1 rst_n = 0;
    #50 rst_n = 1;
    #20000000 $fatal(1, "no end");
  end

  logic instr_req, instr_rvalid, data_req, data_rvalid, data_we, load_req, load_rvalid;
  logic [31:0] instr_addr, instr_rdata, data_addr, data_rdata, data_wdata, load_addr, load_rdata;
  logic [3:0] data_be;

  // each memory grants at once and answers in the next cycle
  always_ff @(posedge clk) begin
    instr_rvalid <= instr_req;
    instr_rdata <= text[instr_addr[15:2]];
    data_rvalid <= data_req;
    data_rdata <= data[data_addr[15:2]];
    load_rvalid <= load_req;
    load_rdata <= data[load_addr[15:2]];
    if (data_req && data_we) begin
      for (int i = 0; i < 4; i++) if (data_be[i]) data[data_addr[15:2]][8*i +: 8] <= data_wdata[8*i +: 8];
      if (data_addr == 32'h0020_0000) begin
        if (data_wdata == 1) $display("pass"); else $display("fail %0d", data_wdata >> 1);
        $finish;
      end
    end
  end

  if_xif #(.X_NUM_RS(2), .X_ID_WIDTH(4)) xif ();

  xpulpnn_xif_cv32e40x coprocessor (
    .clk_i(clk), .rst_ni(rst_n),
    .xif_issue_if(xif), .xif_commit_if(xif), .xif_mem_if(xif), .xif_mem_result_if(xif), .xif_result_if(xif),
    .obi_req_o(load_req), .obi_gnt_i(1'b1), .obi_addr_o(load_addr),
    .obi_rvalid_i(load_rvalid), .obi_rdata_i(load_rdata), .obi_err_i(1'b0)
  );

  cv32e40x_core #(.X_EXT(1), .X_NUM_RS(2), .X_ID_WIDTH(4)) core (
    .clk_i(clk), .rst_ni(rst_n), .scan_cg_en_i(1'b0),
    .boot_addr_i(32'h0), .dm_exception_addr_i('0), .dm_halt_addr_i('0), .mhartid_i('0), .mimpid_patch_i('0),
    .mtvec_addr_i('0),
    .instr_req_o(instr_req), .instr_gnt_i(1'b1), .instr_rvalid_i(instr_rvalid), .instr_addr_o(instr_addr),
    .instr_memtype_o(), .instr_prot_o(), .instr_dbg_o(), .instr_rdata_i(instr_rdata), .instr_err_i(1'b0),
    .data_req_o(data_req), .data_gnt_i(1'b1), .data_rvalid_i(data_rvalid), .data_addr_o(data_addr),
    .data_be_o(data_be), .data_we_o(data_we), .data_wdata_o(data_wdata), .data_memtype_o(), .data_prot_o(),
    .data_dbg_o(), .data_atop_o(), .data_rdata_i(data_rdata), .data_err_i(1'b0), .data_exokay_i(1'b1),
    .mcycle_o(),
    .xif_compressed_if(xif), .xif_issue_if(xif), .xif_commit_if(xif), .xif_mem_if(xif), .xif_mem_result_if(xif),
    .xif_result_if(xif),
    .irq_i('0), .wu_wfe_i(1'b0), .clic_irq_i(1'b0), .clic_irq_id_i('0), .clic_irq_level_i('0), .clic_irq_priv_i('0),
    .clic_irq_shv_i(1'b0), .fencei_flush_req_o(), .fencei_flush_ack_i(1'b1),
    .debug_req_i(1'b0), .debug_havereset_o(), .debug_running_o(), .debug_halted_o(),
    .fetch_enable_i(1'b1), .core_sleep_o()
  );
endmodule
