"""The ports of the cluster to the outside as AXI4 managers."""
