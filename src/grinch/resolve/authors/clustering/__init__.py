"""Blocks of records into authors, at once or as records arrive."""
