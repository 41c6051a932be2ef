"""Where a build writes, and the documents, versions and locks there."""
