"""Applier: writes changes into tables, with conflict policies and a conflict log."""
