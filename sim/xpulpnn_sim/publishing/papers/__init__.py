"""The tables of the papers, measured again on the RTL."""
