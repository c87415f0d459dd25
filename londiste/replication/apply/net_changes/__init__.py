"""Net changes: one final change per key of a batch."""
