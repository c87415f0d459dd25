"""Commands that change which node reads from which, and which is the root."""
