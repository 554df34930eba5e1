"""Many blocks: in parallel processes, on many machines, and on from where a run was stopped."""
