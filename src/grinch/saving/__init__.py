"""Files of grinch: one container for all of them, and nothing in a file is run when it is read."""
