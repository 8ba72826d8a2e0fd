"""What each property needs of the core: the rest takes any values."""

_RESULTS = ("ex_stage/mult", "ex_stage/div", "ex_stage/dotp", "wb_stage/requantiser", "csr_file/mcycle", "csr_file/minstret")
_WORDS = ("prefetch_buffer/w:first", "prefetch_buffer/w:second")
_CSRS = ("csr_file/w:*_bits",)
_REGISTERS = ("id_stage/regfile",)
_ALU = ("ex_stage/alu",)
_NNRF = ("ex_stage/nnrf",)
_LOADED = ("lsu/w:aligned",)
_LOOPS = ("hw_loops/w:lp*",)

CUTS = {
    "loops": (*_RESULTS, *_WORDS, *_CSRS, *_REGISTERS, *_ALU, *_NNRF),
    "mac_load": (*_RESULTS, *_WORDS, *_CSRS, *_REGISTERS, *_ALU, *_LOADED, *_LOOPS),
    "registers": (*_RESULTS, *_WORDS, *_CSRS, *_ALU, *_NNRF, *_LOADED, *_LOOPS, "lsu/w:byte_2", "id_stage/w:target"),
    "obi": (*_RESULTS, *_CSRS, *_REGISTERS, *_NNRF, *_LOADED, *_WORDS),
    "interrupts": (*_RESULTS, *_WORDS, *_REGISTERS, *_ALU, *_NNRF, *_LOADED, *_LOOPS),
    "progress": (*_WORDS, *_CSRS, *_REGISTERS, *_NNRF, *_LOADED, *_LOOPS, "ex_stage/dotp", "ex_stage/alu", "wb_stage/requantiser", "csr_file/mcycle", "csr_file/minstret"),
}
X = "x"
FREE = {
    "loops": (f"-set init 32'b{'0' * 26}{X * 5}0 hw_loops/w:lpstart* hw_loops/w:lpend*", f"-set init 32'b{'0' * 29}{X * 3} hw_loops/w:lpcount*"),
    "mac_load": ("-unset init nn_rf/w:nn_*",),
}
NARROW = {"loops": {"if_stage.prefetch.position": 5, **{f"hwloops.lp{a}{l}": (3 if a == "count" else 6) for l in (0, 1) for a in ("start", "end", "count")}}}
