"""Measures what a request costs, from the outside: ``python -m benchmarks --help``."""
