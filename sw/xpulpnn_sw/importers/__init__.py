"""Networks out of files of other tools, in integers."""
