"""The kernels as a library for C programs: functions, their header, weights packed for them."""
