"""Every instruction against the statements of the instruction table: formal models made of them, and their proofs."""
