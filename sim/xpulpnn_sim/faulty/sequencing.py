"""Faults of the emitted core of the preset xpulpnn2, each of which a property between instructions must find."""

from dataclasses import replace

from xpulpnn_sim.faulty.core import CORE_FAULTS, CoreFault

_ALSO_IN_RISCV_FORMAL = {
    "a dropped word is taken": "fetches",
    "the second word of an instruction may fail": "fetches",
    "nothing is forwarded from WB": "registers",
    "no wait for a value being loaded": "registers",
    "the second access goes to the first word": "data",
    "bytes of a load in the wrong order": "data",
    "csrrc sets": "system",
    "mepc loses a bit": "system",
}
"""Faults that a check there finds too, and the property here."""

SEQUENCE_FAULTS = (
    *(
        replace(fault, check=_ALSO_IN_RISCV_FORMAL[fault.name])
        for fault in CORE_FAULTS
        if fault.name in _ALSO_IN_RISCV_FORMAL
    ),
    CoreFault(
        "a taken branch counts", "hw_loops", "(ex_leaves & ~ex_taken) | gives_back", "ex_leaves | gives_back", "loops"
    ),
    CoreFault(
        "both loops count at a common end",
        "hw_loops",
        "{id_again[1] & ~id_again[0], id_again[0]}",
        "id_again",
        "loops",
    ),
    CoreFault(
        "fetching past the end of a loop is not corrected",
        "hw_loops",
        "assign wrong = id_follows &",
        "assign wrong = 1'b0 &",
        "loops",
    ),
    CoreFault(
        "no wait for the entry being loaded",
        "id_stage",
        "wire reload = id_ex__valid & id_ex__nn_we;",
        "wire reload = 1'b0;",
        "mac_load",
    ),
    CoreFault("the word being loaded is not seen", "nn_rf", "(we & (waddr == {2'h0, act_addr}))", "1'b0", "mac_load"),
    CoreFault(
        "both update bits reload the activation in use",
        "id_stage",
        "nn_act_addr ^ insn__payload__word[24]",
        "nn_act_addr",
        "mac_load",
    ),
    CoreFault("a redirect changes a waiting request", "prefetch_buffer", "(redirects & ~held)", "redirects", "obi"),
    CoreFault(
        "a second access before the first is answered",
        "lsu",
        "ex_ctrl_valid & (~outstanding | answered)",
        "ex_ctrl_valid",
        "obi",
    ),
    CoreFault(
        "an interrupt does not wait for what is older",
        "controller",
        "wanted & id_valid & ~busy",
        "wanted & id_valid",
        "interrupts",
    ),
    CoreFault(
        "an interrupt drops the instruction behind it",
        "controller",
        "faulted ? {access_pc, 1'b0} : id_pc",
        "faulted ? {access_pc, 1'b0} : id_next",
        "interrupts",
    ),
    CoreFault(
        "mret leaves interrupts off",
        "csr_file",
        "mstatus_bits[0] <= mstatus_bits[1];",
        "mstatus_bits[0] <= 1'b0;",
        "system",
    ),
    CoreFault("ebreak is ecall", "id_stage", "(decoder_ctrl_system == SYSTEM_EBREAK) ? 4'h3 : 4'hb", "4'hb", "system"),
    CoreFault(
        "fence.i keeps what was fetched",
        "controller",
        "wire flush = intent__system & (system__kind == SYSTEM_FENCE_I);",
        "wire flush = 1'b0;",
        "system",
    ),
    CoreFault(
        "fence.i does not wait for what is older",
        "id_stage",
        "((decoder_ctrl_system == SYSTEM_WFI) | (decoder_ctrl_system == SYSTEM_FENCE_I)) & ~drained",
        "(decoder_ctrl_system == SYSTEM_WFI) & ~drained",
        "system",
    ),
    CoreFault(
        "wfi sleeps although an interrupt waits",
        "controller",
        "else if (any_pending) sleeping <= 1'b0;",
        "",
        "progress",
    ),
    CoreFault(
        "a failed access stays under way",
        "lsu",
        "end else if (data__rvalid) begin\n            outstanding <= 1'b0;",
        "end else if (data__rvalid) begin\n            outstanding <= data__err;",
        "progress",
    ),
)
"""What may be wrong, at least twice for each property."""
