"""Refused credentials: the same words for everything that a stranger could find out by trying."""

from __future__ import annotations

from mastaba.errors import UnknownCredentialError


class FormerCredentialError(UnknownCredentialError):
    """The credential is genuine, but revoked or expired: whoever shows it does not guess."""


def unknown() -> UnknownCredentialError:
    """Return the error for a credential that does not exist or is damaged."""
    return UnknownCredentialError("the credential is unknown or damaged")


def expired() -> FormerCredentialError:
    """Return the error for a credential that was valid; only its holder sees it."""
    return FormerCredentialError("the credential has expired")


def revoked() -> FormerCredentialError:
    """Return the error for a credential that was withdrawn; only its holder sees it."""
    return FormerCredentialError("the credential has been revoked")


def too_early() -> UnknownCredentialError:
    """Return the error for a credential whose time has not begun; only its holder sees it."""
    return UnknownCredentialError("the credential is not valid yet")
