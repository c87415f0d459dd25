"""The daemon that cuts queues into ticks and cleans them."""
