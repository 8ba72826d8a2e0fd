"""The external ports of the cluster as AXI4 managers."""
