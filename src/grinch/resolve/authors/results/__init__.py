"""How good the found authors are, and which decisions were doubtful."""
