"""The instruction set as data; standard library only."""
