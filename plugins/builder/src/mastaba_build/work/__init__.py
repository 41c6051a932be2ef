"""Running a build: engines, workers, the coordinator, reports."""
