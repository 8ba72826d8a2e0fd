"""The cluster: cores on a banked memory, and what couples them."""
