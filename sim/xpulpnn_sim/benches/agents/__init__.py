"""Agents of the benches: a driver and a monitor for each bus, their clock, the scoreboard."""
