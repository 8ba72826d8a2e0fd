CUTS = {
    "loops": [
        "id_stage/regfile",
        "ex_stage/alu",
        "ex_stage/mult",
        "ex_stage/div",
        "ex_stage/dotp",
        "ex_stage/nnrf",
        "wb_stage/requantiser",
        "csr_file/mcycle",
        "csr_file/minstret",
        "csr_file/w:*_bits",
        "prefetch_buffer/w:first",
        "prefetch_buffer/w:second",
    ],
}
