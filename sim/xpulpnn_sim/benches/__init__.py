"""cocotb benches, one module per unit."""
