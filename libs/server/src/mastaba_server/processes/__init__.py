"""The supervisor, its workers, and what they share."""
