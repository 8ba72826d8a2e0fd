"""Gate graphs, and methods that prove claims about them."""
