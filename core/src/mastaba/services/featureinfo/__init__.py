"""Feature info, shared by the protocols that offer it (WMS, WMTS)."""
