"""Proofs about emitted Verilog: gate graphs, polynomials, SAT."""
