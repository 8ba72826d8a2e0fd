"""Properties of the units of a cluster, stated as gates next to the unit."""
