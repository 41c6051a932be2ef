"""Memory of processes that draw."""

from mastaba.site.allocator import keep_freed_memory

__all__ = ["keep_freed_memory"]
