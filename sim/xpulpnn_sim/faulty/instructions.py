"""Faults of the emitted core, each of which the proof of an instruction must find."""

from xpulpnn_sim.faulty.core import CoreFault

INSTRUCTION_FAULTS = (
    CoreFault(
        "carries pass from crumb to crumb",
        "simd_adder",
        "32'h44444444 & {32{fmt[3]}}",
        "32'h44444440 & {32{fmt[3]}}",
        "pv.add.c",
    ),
    CoreFault(
        "no borrow of the lowest lane", "simd_adder", "{starting[30:0], carry}", "{starting[30:0], 1'b0}", "pv.sub.n"
    ),
    CoreFault(
        "signs are those of bit 31",
        "simd_shifter",
        "{32{~fmt[3]}};\n    wire [30:0] moving_2_up_2_part_2",
        "{32{~fmt[2]}};\n    wire [30:0] moving_2_up_2_part_2",
        "pv.sra.n",
    ),
    CoreFault(
        "equality of crumbs looks at one bit", "simd_comparator", "| 32'h55555555);", "| 32'hd5555555);", "pv.cmpeq.c"
    ),
    CoreFault(
        "branches ask for half of the word",
        "simd_comparator",
        "assign holds = relation[31]",
        "assign holds = relation[15]",
        "p.bneimm",
    ),
    CoreFault(
        "clipu of 0 by a negative bound is the bound",
        "alu",
        "& ~op_a[31] & ~(op_b[31] & bit_count_empty)",
        "& ~op_a[31]",
        "p.clipu",
    ),
    CoreFault("fl1 of 0 is 31", "bit_count", "missing ? 6'h20 : {1'b0, ~first}", "{1'b0, ~first}", "p.fl1"),
    CoreFault("clb counts one more", "bit_count", "(first - 5'h1)", "first", "p.clb"),
    CoreFault("cnt loses the carry", "bit_count", "ones_in_32[5:0];", "{1'b0, ones_in_32[4:0]};", "p.cnt"),
    CoreFault("fields past bit 31 wrap", "bit_field", "last[4:0] | {5{last[5]}}", "last[4:0]", "p.extract"),
    CoreFault("pv.insert.b replaces nine bits", "bit_field", "width_m1_2 = 5'h7;", "width_m1_2 = 5'h8;", "pv.insert.b"),
    CoreFault("packhi swaps its sources", "lane_move", "from_b[2] ? op_b[7:0]", "from_b[2] ? op_a[7:0]", "pv.packhi.b"),
    CoreFault(
        "shuffle2 takes its selector's sign",
        "lane_move",
        "fmt[1] ? op_b[26:24]",
        "fmt[1] ? {op_b[31], op_b[25:24]}",
        "pv.shuffle2.b",
    ),
    CoreFault(
        "bit 25 is the highest of imm6",
        "immediates",
        "{{26{word[24]}}, word[24:20], word[25]}",
        "{{26{word[25]}}, word[25:20]}",
        "pv.add.sci.b",
    ),
    CoreFault(
        "the unsigned imm6 has a sign",
        "immediates",
        "{26'h0, word[24:20], word[25]}",
        "{{26{word[24]}}, word[24:20], word[25]}",
        "pv.minu.sci.h",
    ),
    CoreFault(
        "clipi bounds by 2 ** Is2",
        "immediates",
        "clip_bound_shifted[32:1] - 32'h1",
        "clip_bound_shifted[31:0] - 32'h1",
        "p.clipi",
    ),
    CoreFault(
        "the short offset of a loop is signed",
        "immediates",
        "{26'h0, word[19:15], 1'b0}",
        "{{26{word[19]}}, word[19:15], 1'b0}",
        "lp.setupi",
    ),
    CoreFault(
        "the immediate of a branch is unsigned",
        "immediates",
        "{{27{word[24]}}, word[24:20]}",
        "{27'h0, word[24:20]}",
        "p.beqimm",
    ),
    CoreFault(
        "rounding adds a whole place", "simd_alu", "(32'h7fffffff >> ~shamt)", "(32'hffffffff >> ~shamt)", "p.addRNi"
    ),
    CoreFault(
        "the shift amount is always in the word",
        "id_stage",
        "decoder_ctrl_shamt_rs2 ? rs2[4:0] : insn__payload__word[29:25]",
        "insn__payload__word[29:25]",
        "p.subuRN",
    ),
    CoreFault(
        "the scalar of bytes has seven bits",
        "id_stage",
        "id_chosen_b[7:0] & {8{decoder",
        "{1'b0, id_chosen_b[6:0]} & {8{decoder",
        "pv.dotsp.sc.b",
    ),
    CoreFault(
        "the factors' signs are swapped",
        "ex_stage",
        "{ctrl_dotp_accumulate, dotp_b_signed, dotp_a_signed,",
        "{ctrl_dotp_accumulate, dotp_a_signed, dotp_b_signed,",
        "pv.dotusp.h",
    ),
    CoreFault(
        "the weight of another number",
        "nn_rf",
        "2'h2: wgt_value = nn_wgt2;",
        "2'h2: wgt_value = nn_wgt3;",
        "pv.mlsdotup.h",
    ),
    CoreFault(
        "the word on its way to an entry is missed",
        "nn_rf",
        "(we & (waddr == {2'h0, act_addr})) ? written : act_value",
        "act_value",
        "pv.mlsdotsp.b",
    ),
    CoreFault(
        "the base of a Mac&Load stays if rd is x0",
        "id_stage",
        "id_ex__wb_we <= id_ex__wb_we_part",
        "id_ex__wb_we <= id_ex__wb_we_part & (|insn__payload__word[11:7])",
        "pv.mlsdotsup.n",
    ),
    CoreFault("post-increment accesses go to the sum", "lsu", "ex_ctrl_post ? ex_base : ex_sum", "ex_sum", "p.lw"),
    CoreFault("p.lh does not extend the sign", "lsu", "{16{wb_signed & aligned[15]}}", "16'h0", "p.lh"),
)
"""What may be wrong in a core with XpulpV2 and XpulpNN, and the instruction whose proof fails then."""

PARAMETER_FAULTS = (
    CoreFault("pv.rqs clips a bit too late", "requantiser", "(shifted_1[3] & ctrl_to_signed)", "1'b0", "pv.rqs.n"),
    CoreFault(
        "pv.rqu writes the next lane too",
        "requantiser",
        "crumbs = one_lane;",
        "crumbs = one_lane | {one_lane[14:0], 1'b0};",
        "pv.rqu.c",
    ),
    CoreFault(
        "pv.rqld mixes factor and summand",
        "id_stage",
        "(3'h6 + {2'h0, insn__payload__word[20]})",
        "(3'h7 - {2'h0, insn__payload__word[20]})",
        "pv.rqld",
    ),
)
"""Likewise with the instructions of XpulpNN 2."""
