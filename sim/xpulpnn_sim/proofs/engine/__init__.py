"""Gate graphs, and methods to prove claims about them."""
