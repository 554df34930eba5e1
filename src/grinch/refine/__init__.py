"""Ours, not the paper's: a tree improved after its points are in."""
