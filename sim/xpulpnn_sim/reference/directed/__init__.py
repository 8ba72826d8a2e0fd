"""Hand-written programs per instruction group, with results worked out by hand."""
