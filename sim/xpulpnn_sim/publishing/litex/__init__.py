"""The core as a CPU of LiteX."""
