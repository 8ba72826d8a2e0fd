"""Benches of units that users run, on any Verilog with the ports of the unit."""
