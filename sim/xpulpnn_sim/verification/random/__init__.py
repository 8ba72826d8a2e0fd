"""Random programs and their shrinking, and the designs they run on."""
