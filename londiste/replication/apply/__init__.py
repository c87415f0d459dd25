"""Apply: one batch of the queue becomes one transaction on the target."""
