"""The xpulpnn hardware generator: ISA table, configuration and Amaranth components."""
