"""IP packages, the papers' tables and the guide."""
