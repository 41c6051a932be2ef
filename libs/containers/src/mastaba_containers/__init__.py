"""What containers of tiles share: tile matrix sets, payloads, inflating, heads, metadata.

`sets` finds the set that has the grid of a container. `payloads` recognizes tiles. `inflating`
decompresses within limits. `heads` reads the start of a container. `metadata` turns what others
wrote into tables and plain text.
"""
