"""The cascade: nodes, providers, subscribers and positions."""
