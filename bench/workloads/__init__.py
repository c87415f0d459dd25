"""Tables and changes that benchmarks use, and programs that write or load them."""
