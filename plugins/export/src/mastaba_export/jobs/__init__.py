"""Jobs that clients order: their queue, their limits, the processes that run them, the results."""
