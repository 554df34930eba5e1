"""Records of publications: how they are read, how names compare, and the blocks that names make."""
