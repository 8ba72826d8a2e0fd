"""Random C programs, compiled for the core with and without the loop pass, and for this machine."""
