"""Two databases come into step before your eyes."""
