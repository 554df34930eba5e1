"""Many blocks: in parallel processes, on many machines, and continued after an interruption."""
