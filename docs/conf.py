"""Settings of Sphinx for the documentation site; `make docs` builds it."""

project = "Mastaba"
author = "the Mastaba developers"
copyright = "the Mastaba developers, Apache License 2.0"

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "scripts.docs_site.docstrings",
    "scripts.docs_site.public_names",
]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
exclude_patterns = ["conf.py"]

# The same anchors as on forges, so links work both there and on the site.
myst_heading_anchors = 4
myst_enable_extensions = ["deflist"]

# Smart quotes would turn the two dashes of an option into one.
smartquotes = False

# The reference. Names in single backquotes are links where they have an entry.
default_role = "py:obj"
autodoc_member_order = "bysource"
napoleon_numpy_docstring = False
maximum_signature_line_length = 88

html_theme = "furo"
html_title = "Mastaba"
html_copy_source = False
html_show_sourcelink = False

# Any broken link is an error (-W).
nitpicky = True
