"""Networks that run on models: their programs, runs of many images, plots and HTML pages."""
