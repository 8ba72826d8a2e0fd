"""DMA engine of the cluster: copies between its memory and the outside."""
