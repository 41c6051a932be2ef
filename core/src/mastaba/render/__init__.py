"""Maps: from an extent to pixels. Arrays in, arrays out (resampling.md)."""
