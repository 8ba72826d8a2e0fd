"""The xpulpnn hardware generator: ISA table, configuration and Amaranth components."""

from xpulpnn.lazy import loader

__getattr__, __dir__ = loader(__file__)
