"""Steps of topology changes: each is one transaction on one node, or a wait."""
