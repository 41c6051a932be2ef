"""Threads of a process that forks, and calls to machines and file systems that may hang."""
