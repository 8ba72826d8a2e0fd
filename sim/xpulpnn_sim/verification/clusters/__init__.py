"""Random programs and litmus tests for all cores of a cluster."""
