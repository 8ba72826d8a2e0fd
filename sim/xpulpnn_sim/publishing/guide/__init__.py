"""Parts of the guide that are made of the sources: instructions, CSRs, configurations, options."""
