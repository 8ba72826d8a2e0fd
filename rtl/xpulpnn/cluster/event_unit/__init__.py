"""The event unit: barriers, mutexes, dispatch queue, software events, and the event buffers at which cores wait."""
