"""A core with ports of a bus: Wishbone or AXI4."""
