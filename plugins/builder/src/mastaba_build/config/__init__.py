"""What is wanted: the configuration of a build, and what its sources may open."""
