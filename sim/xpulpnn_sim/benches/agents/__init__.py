"""Agents of the benches: a driver and a monitor for each bus, clock and reset, the scoreboard."""
