"""Pages of HTML that stand alone: one file with its style and its script, which needs neither network nor library."""

import base64
import hashlib
from importlib.resources import files
from typing import Any

from jinja2 import Environment


def render_page(package: str, **values: Any) -> str:
    """The page of a package's `page.html`, a Jinja template in which all texts are escaped.

    It also knows `style`, which is this package's `pages.css` and the other's `page.css`, `script`, which is `page.js`,
    and their hashes `style_hash` and `script_hash`, by which a browser knows them as the page's own.

    Args:
        package: name such as `hf_summ.inspection`, whose folder has the three files.
        values: what the template knows besides.
    """
    assets = files(package)
    html, own_style, script = (
        (assets / name).read_text(encoding="utf-8") for name in ("page.html", "page.css", "page.js")
    )
    style = (files("hf_summ.common") / "pages.css").read_text(encoding="utf-8") + own_style
    template = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True).from_string(html)
    return template.render(style=style, script=script, style_hash=_hash(style), script_hash=_hash(script), **values)


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
