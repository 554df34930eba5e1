"""One tree by many workers."""
