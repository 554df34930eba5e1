"""The other systems: the same face, the same tree, the same linkages where the method allows it."""
