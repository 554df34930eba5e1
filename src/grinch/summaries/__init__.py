"""What a linkage keeps for every node of a tree, and its upkeep."""
