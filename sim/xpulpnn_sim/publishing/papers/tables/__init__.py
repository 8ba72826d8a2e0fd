"""Published figures of each paper, and the runs that they are compared with."""
