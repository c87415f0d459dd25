"""What monitoring reports about real outages."""
