"""``mastaba check --deep``: whether a configuration works, and not only whether it can be read.

Each module looks after one thing and returns faults; `examination.examine` runs them all.
"""
