"""Models that the hardware is judged by: golden models, statements of the instructions, simulator, programs."""
