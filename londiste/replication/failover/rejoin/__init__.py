"""A root that was taken for lost and comes back: what only it has, and how it becomes a branch."""
