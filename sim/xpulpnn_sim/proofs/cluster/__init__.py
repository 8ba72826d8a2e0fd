"""Claims about units of a cluster, written as gates beside them."""
