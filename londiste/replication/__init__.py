"""Tables in the stream: states, plan, worker."""
