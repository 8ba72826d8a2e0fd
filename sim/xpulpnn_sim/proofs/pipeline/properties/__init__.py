"""Properties of the pipeline, as gates beside the core."""
