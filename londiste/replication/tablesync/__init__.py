"""Table sync: table states, copy scheduling, and hand-over from copy to worker."""
