"""Brings the SQL files of sql/ into a database."""
