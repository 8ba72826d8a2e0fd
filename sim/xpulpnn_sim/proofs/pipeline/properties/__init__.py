"""Properties of the pipeline, stated as gates next to the core."""
