"""Consumer programs: queue mover, queue splitter, simple consumer, dispatcher."""
