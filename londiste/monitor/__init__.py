"""What is going on: collected once, shown in several ways."""
