"""What an event says."""
