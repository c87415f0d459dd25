"""The queue as Python sees it: one typed function per SQL function."""
