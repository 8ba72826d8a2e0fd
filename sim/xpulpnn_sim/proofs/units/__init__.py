"""Proofs about emitted Verilog: gate graphs, polynomials, SAT, simulation of all operands."""
