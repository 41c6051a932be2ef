"""What follows from both: levels, slabs, names, and what their pixels depend on."""
