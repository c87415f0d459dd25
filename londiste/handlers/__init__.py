"""What a table wants: how it is captured, copied and applied."""
