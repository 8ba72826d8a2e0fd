"""Verification programs: random ones with shrinking, directed ones, and those that measure cycle costs."""
