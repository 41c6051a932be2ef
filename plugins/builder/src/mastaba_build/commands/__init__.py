"""The commands ``mastaba build`` and ``mastaba pyramid``."""
