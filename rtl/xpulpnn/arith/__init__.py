"""Building blocks of adders and multipliers, shared by the core and the dot-product unit."""
