"""The commands of ``mastaba`` that the core brings along, one module each."""
