"""Instruction caches of the cluster: one for each core, and a shared one."""
