"""Identifiers: who a credential belongs to."""
