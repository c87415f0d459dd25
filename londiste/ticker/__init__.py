"""The ticker: a daemon that creates ticks and maintains queues."""
