"""What is kept of a group of records, and the features of two groups."""
