"""Connection strings: those that nodes store, and those of other programs."""
