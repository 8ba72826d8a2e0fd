"""The shared memory of the cluster: banks, and the crossbar before them."""
