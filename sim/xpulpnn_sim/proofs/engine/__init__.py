"""Graphs of gates, and the ways to prove claims about them."""
