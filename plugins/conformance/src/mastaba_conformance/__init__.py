"""Conformance tests for plugins, and writers of test data.

No part of a server: the writers share no code with the readers that they test.
"""
