"""Random and directed programs, clusters, C programs, coverage, cycle costs and mutants."""
