"""Random C programs, compiled with and without the loop pass and by the compiler of this machine."""
