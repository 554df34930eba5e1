"""Records that mean the same thing."""
