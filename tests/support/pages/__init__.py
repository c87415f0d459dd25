"""Pages of the documentation, pasted in order as a stranger has them."""
