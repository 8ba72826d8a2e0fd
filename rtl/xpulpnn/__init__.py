"""The xpulpnn hardware generator: ISA table, configuration and Amaranth components."""

from xpulpnn.lazy import loader

__getattr__ = loader(__file__)
