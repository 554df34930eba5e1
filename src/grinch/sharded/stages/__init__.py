"""The stages of a run, in order: what a worker does in each, from file to file."""
