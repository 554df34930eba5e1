"""A tree that outlives the process."""
