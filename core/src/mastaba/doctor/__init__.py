"""``mastaba check --deep``: whether a configuration works, not only whether it is valid.

Each module examines one subject and returns faults; `examination.examine` runs them all.
"""
