"""Models in files: one file for a model, and nothing of it is run when it is opened."""

from grinch.saving.parts import Parts, check_model, put_together, take_apart

__all__ = ["Parts", "check_model", "put_together", "take_apart"]
