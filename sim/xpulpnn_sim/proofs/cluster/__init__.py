"""Claims about the parts of a cluster as gates beside them."""
