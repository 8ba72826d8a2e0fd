"""AHB-Lite ports of a core."""
