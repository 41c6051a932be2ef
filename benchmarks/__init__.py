"""Measures the cost of requests from outside the server: ``python -m benchmarks --help``."""
