"""Area, timing, energy and cycles of configurations, and the bits that layers of networks need."""
