"""Generated parts of the guide: instructions, CSRs, configurations, options."""
