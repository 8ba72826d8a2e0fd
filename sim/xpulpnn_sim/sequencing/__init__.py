"""Properties of the emitted core between instructions, with free bus timing, and bounded proofs of them."""
