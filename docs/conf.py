"""Sphinx configuration: MyST pages with the theme Furo, and API and flags from the code. Needs no network."""

import os
import sys
from pathlib import Path

# nothing here is on the Hub, and imported code must not request anything from it
os.environ["HF_HUB_OFFLINE"] = "1"
sys.path.insert(0, str(Path(__file__).parent / "extensions"))

from hf_summ import __version__

project = "hf_summ"
author = "The hf_summ contributors"
release = version = __version__
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "drawings",
    "flag_tables",
    "notebooks",
    "public_names",
]
exclude_patterns = ["extensions"]
html_theme = "furo"
html_title = "hf_summ"
html_static_path = ["static"]
html_css_files = ["hf_summ.css"]
html_show_sphinx = False
html_show_copyright = False
html_copy_source = False

# every `#heading` can be linked to, and `make docs` fails on links to missing ones
myst_heading_anchors = 3

# names in docstrings are in single backticks, which become a link if there is a target, and code otherwise
default_role = "py:obj"
highlight_language = "text"
# what is typed can be copied, without its prompt, and what is printed cannot
copybutton_selector = (
    "div:not(.highlight-output, .highlight-text) > div.highlight > pre"
)
copybutton_prompt_text = "$ "
copybutton_line_continuation_character = "\\"
nitpicky = True
nitpick_ignore_regex = [
    # code, values and parameters are in backticks too
    ("py:obj", "(?s:.*)"),
    # the documentation of other libraries cannot be looked up without a network, but ours must exist
    ("py:(class|exc|data)", r"(?!hf_summ\.).*"),
    # the result of a method of processors that other code of this package calls
    ("py:class", r"hf_summ\.models\.text_processing_base\.ReadSource"),
]
autodoc_inherit_docstrings = False
autodoc_member_order = "bysource"
toc_object_entries_show_parents = "hide"
autodoc_typehints_format = "short"
# one parameter per line if a signature does not fit on one
python_maximum_signature_line_length = 88
napoleon_numpy_docstring = False
napoleon_use_rtype = False
