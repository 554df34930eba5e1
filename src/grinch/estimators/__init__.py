"""The scikit-learn face of every system."""
