"""Proofs that the emitted Verilog is equivalent to Amaranth's RTLIL."""
