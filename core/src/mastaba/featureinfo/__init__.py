"""Answers to "what is here?", shared by the protocols that ask it (WMS, WMTS)."""
