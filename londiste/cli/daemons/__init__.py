"""Commands that run as daemons, and ``tick``."""
