"""The LiteX CPUs of this project, and the files in this folder that LiteX's software needs."""
