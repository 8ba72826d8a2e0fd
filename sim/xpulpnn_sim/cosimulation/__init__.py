"""Compiled models of the hardware, the checks of what they do, and the workloads that run on them."""
