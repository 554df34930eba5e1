"""A model of who wrote what, the file it is kept in, and the linkage made of it."""
