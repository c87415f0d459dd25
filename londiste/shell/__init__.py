"""Queue shell (``londiste queue shell``): parses text to statements and runs them."""
