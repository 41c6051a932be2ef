"""The log of several processes: lines, files, and batches that no request waits for."""
