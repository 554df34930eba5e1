"""What the page asks of a tree, and the answers: a scene of one version, and what is shown of it."""
