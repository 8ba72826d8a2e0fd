"""What the pages of the guide show of the sources: instructions, CSRs, configurations, options."""
