"""The multi-precision dot-product unit."""
