"""Networks on the design for many images: runs that can be interrupted, what came of them, pages of it."""
