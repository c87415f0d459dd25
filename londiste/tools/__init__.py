"""Programs made of consumers: they move events on, or run a statement for each."""
