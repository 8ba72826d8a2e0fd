"""Gate graphs, and methods that prove properties of them."""
