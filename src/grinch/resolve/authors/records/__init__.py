"""Records of publications: how they are read, how names are compared, and the blocks that names form."""
