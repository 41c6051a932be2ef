"""Access: who a client is, and what it may see. For the plugin that decides it."""

from mastaba.containers.locked import LockedReader
from mastaba_server.access.gate import Gate, Identifier, Meter, Operation, Rates, Spending
from mastaba_server.access.principal import GRANT, PEER, Form, Grant, Principal, Shown

__all__ = [
    "GRANT",
    "PEER",
    "Form",
    "Gate",
    "Grant",
    "Identifier",
    "LockedReader",
    "Meter",
    "Operation",
    "Principal",
    "Rates",
    "Shown",
    "Spending",
]
