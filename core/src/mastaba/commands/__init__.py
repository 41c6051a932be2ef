"""The commands of ``mastaba`` in the core, one module each."""
