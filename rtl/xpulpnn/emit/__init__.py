"""Readable Verilog from Amaranth's RTLIL."""
