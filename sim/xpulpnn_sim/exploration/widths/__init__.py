"""Which bits the layers of a network should have: accuracy by the reference, cycles measured on the design."""
