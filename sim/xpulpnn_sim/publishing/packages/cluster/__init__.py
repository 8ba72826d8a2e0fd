"""Testbenches of the cluster and its parts, in plain Verilog."""
