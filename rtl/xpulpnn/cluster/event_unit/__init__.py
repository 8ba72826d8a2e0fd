"""The event unit: barriers, mutexes, dispatch and software events, and the registers each core waits at."""
