"""Pyramids as a whole: journal, publication, verification, versions, and pyramids from others."""
