"""The store of API keys."""
