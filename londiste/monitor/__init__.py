"""Monitoring: facts and findings about nodes, queues and captures."""
