"""The cluster: cores on a banked memory, with event unit, timer, instruction caches and DMA engine."""
