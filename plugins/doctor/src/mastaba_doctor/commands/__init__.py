"""Commands of this plugin, one module each."""
