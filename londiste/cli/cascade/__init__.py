"""Commands that change the topology of a running cascade."""
