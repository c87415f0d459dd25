"""Who is who: nodes, providers, subscribers, positions."""
