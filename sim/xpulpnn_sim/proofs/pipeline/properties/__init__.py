"""The properties between instructions as gates beside the core."""
