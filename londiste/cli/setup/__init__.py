"""Commands for installation, configuration and first steps."""
