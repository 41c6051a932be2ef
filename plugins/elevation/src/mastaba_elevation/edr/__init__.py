"""OGC API – Environmental Data Retrieval 1.1 (19-086r6; elevation.md 2)."""
