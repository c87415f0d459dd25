"""Commands that check, compare and repair."""
