"""Requests as services see them."""
