"""A model of who wrote what, and how it is a linkage."""
