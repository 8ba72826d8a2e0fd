"""Agents of the benches: a driver and a monitor for each bus, clock and reset, the scoreboard."""

from xpulpnn.lazy import loader

__getattr__, __dir__ = loader(__file__)
