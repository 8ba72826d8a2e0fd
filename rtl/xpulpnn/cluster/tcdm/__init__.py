"""The shared memory of the cluster: banks, and the crossbar in front of them."""
