"""Long-running processes: loop, signals, pid file, logging."""
