"""From source pixels to the bytes of one slab."""
