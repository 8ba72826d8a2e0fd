"""What must hold between instructions: properties of the emitted core with free bus timing, bounded proofs of them."""
