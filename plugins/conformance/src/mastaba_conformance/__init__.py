"""Conformance tests for plugins, and test data. No part of a server."""
