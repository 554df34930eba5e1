"""Grinch in the place of a part of other packages, none of which it needs."""
