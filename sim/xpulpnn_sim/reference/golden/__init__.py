"""numpy references of every instruction and kernel, independent of the gates."""
