"""The steps that changes of a cascade are made of: each one transaction on one node, or a wait."""
