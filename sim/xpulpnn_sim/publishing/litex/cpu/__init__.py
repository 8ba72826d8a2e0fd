"""The CPU, with the files that LiteX's software takes from its folder."""
