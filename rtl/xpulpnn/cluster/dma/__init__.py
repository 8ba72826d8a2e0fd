"""DMA engine of the cluster: copies between TCDM and external addresses."""
