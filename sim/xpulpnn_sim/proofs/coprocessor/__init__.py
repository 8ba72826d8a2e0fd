"""Properties of the coprocessor behind CV-X-IF, stated as gates beside it."""
