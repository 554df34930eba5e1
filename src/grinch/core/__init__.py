"""The algorithm: the moves of the paper, and the engine that makes them."""
