"""Settings of the site (Sphinx)."""

from importlib.metadata import version as version_of

project = "Berthage"
author = "the Berthage authors"
copyright = "the Berthage authors"
release = version_of("berthage")

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.doctest",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
]
exclude_patterns = ["_build", "example-plugin/**", "examples/**"]

html_theme = "furo"
html_title = "Berthage"

myst_heading_anchors = 3
myst_enable_extensions = ["dollarmath", "deflist"]

autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
autodoc_member_order = "bysource"
autodoc_class_signature = "mixed"
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True
default_role = "py:obj"
