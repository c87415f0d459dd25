"""The products and methods that a benchmark compares, one module per benchmark."""
