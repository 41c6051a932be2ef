"""Plugins: the hooks they implement, how they are found, and what they provide."""
