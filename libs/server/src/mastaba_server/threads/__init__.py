"""Threads of a process that forks: started on first use, and again in each child."""
