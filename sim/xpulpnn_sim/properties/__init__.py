"""Properties of the cluster's units as hardware beside them: what :mod:`xpulpnn_sim.formal.induction` proves."""
