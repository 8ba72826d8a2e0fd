"""The units of the extended RI5CY core, one component per file."""
