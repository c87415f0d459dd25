"""Changes of a cascade that lives: other providers, another root, nodes that are lost or go."""
