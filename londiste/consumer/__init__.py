"""For people who write consumers."""
