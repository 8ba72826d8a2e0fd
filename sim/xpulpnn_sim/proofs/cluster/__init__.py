"""Claims about units of a cluster, stated as gates next to the unit."""
