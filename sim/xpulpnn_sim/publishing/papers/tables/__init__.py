"""Published figures of each paper, and the runs that are compared with the figures."""
