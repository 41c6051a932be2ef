"""OGC API – Coverages, candidate 1.0.0: stored values of layers, for download."""
