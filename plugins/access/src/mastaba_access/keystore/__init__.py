"""API keys: their form, what is known about each of them, and where they are stored."""
