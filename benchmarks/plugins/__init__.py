"""Plugins of measured servers: MASTABA_PLUGINS_DIR is this folder."""
