"""Commands on one node of a cascade: create, pause, settings, location check."""
