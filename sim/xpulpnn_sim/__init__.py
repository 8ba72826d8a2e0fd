"""Everything that runs something: golden models, ISS, benches, co-simulation and the command line."""

from xpulpnn.lazy import loader

__getattr__, __dir__ = loader(__file__)
