"""Commands about nodes: create, pause, show, wait."""
