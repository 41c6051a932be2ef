"""Writers of archives, one module for each format."""
