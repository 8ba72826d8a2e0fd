"""A core with ports of a bus: Wishbone, AXI4 or AHB-Lite."""
