"""Sessions: their first statements, and the limits of their exchanges with the server."""
