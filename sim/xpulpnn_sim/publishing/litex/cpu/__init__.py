"""LiteX CPUs, and the files of this folder that LiteX's software needs."""
