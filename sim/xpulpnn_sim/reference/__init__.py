"""References for the hardware: golden models, statements of the instructions, simulator, programs."""
