"""The language of ``londiste queue shell``: text to statements, statements to results."""
