"""How good authors are that were found, and what was doubtful."""
