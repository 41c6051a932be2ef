"""Memory of processes that draw."""

from mastaba_server.processes.allocator import keep_freed_memory

__all__ = ["keep_freed_memory"]
