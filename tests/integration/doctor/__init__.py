"""Defects of databases that londiste doctor finds, one each."""
