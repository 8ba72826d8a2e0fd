"""Functions in processes of their own, here and on the machines of a Dask scheduler."""
