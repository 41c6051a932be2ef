"""Mosaics: layers of many COGs, which a table lists.

`formats` reads a table, `table` sorts its rows, `boxes` finds those that a tile needs. `members`
opens the files, `painting` makes a tile of them. `live` swaps the table if it has changed.
"""
