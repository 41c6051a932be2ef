"""Image encoders: arrays in, bytes of one media type out."""
