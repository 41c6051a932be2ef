"""Settings of Sphinx for the documentation site; `make docs` builds it."""

project = "Mastaba"
author = "the Mastaba developers"
copyright = "the Mastaba developers, Apache License 2.0"

extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["conf.py"]

# Anchors as forges make them, so that the same links work in a forge and on the site.
myst_heading_anchors = 4
myst_enable_extensions = ["deflist"]

# They would make one dash of the two before an option.
smartquotes = False

html_theme = "furo"
html_title = "Mastaba"
html_copy_source = False
html_show_sourcelink = False

# A link that leads nowhere is an error (-W), of whatever kind it is.
nitpicky = True
