"""External debugging: debug module, JTAG transport, and a core with both."""
