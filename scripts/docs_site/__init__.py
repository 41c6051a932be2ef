"""Build of the documentation site from the pages of the repository, without a network."""
