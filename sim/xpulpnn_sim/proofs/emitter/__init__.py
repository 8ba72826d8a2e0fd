"""Proofs that the emitted Verilog is what Amaranth describes."""
