"""Networks on models: programs, runs of many images, their figures and pages."""
