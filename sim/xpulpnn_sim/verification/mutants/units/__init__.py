"""Mutants of hardware units: how many of them their benches find."""
