"""Commands of generation 2 for a pair with one file: ``provider``, ``subscriber``, ``replay``."""
