"""Tutorials as Jupyter notebooks, made from a page's own text whenever it is built."""

import re
from pathlib import Path

import nbformat
from docutils import nodes
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

# code that a reader runs, with what it prints; all else is text
_CODE = r"(?ms)^```(python|bash)\n(.*?)\n```$(?:\n\n```output\n(.*?)```$)?"
# what a notebook has no use for: this directive, links to other pages, and Sphinx's name of a block that is not run
_REPLACED = (
    (r"```\{notebook\}\n```\n\n", ""),
    (r"\[([^]]+)\]\((?!https?:)[^)]+\)", r"\1"),
    (r"```\{code-block\} ", "```"),
)
# the package is on no index
_INSTALL = "# in a clone of the repository\n%pip install --quiet torch ."
_METADATA = {"kernelspec": {"name": "python3", "display_name": "Python 3"}, "language_info": {"name": "python"}}


class Notebook(SphinxDirective):
    """`{notebook}`: a link to the page's notebook, which is written beside the page."""

    def run(self) -> list[nodes.Node]:
        path = Path(self.env.app.outdir, f"{self.env.docname}.ipynb")
        path.parent.mkdir(parents=True, exist_ok=True)
        nbformat.write(as_notebook(Path(self.env.doc2path(self.env.docname))), path)
        link = f'<p><a href="{path.name}" download>This page as a Jupyter notebook</a></p>'
        return [nodes.raw("", link, format="html")]


def as_notebook(page: Path) -> nbformat.NotebookNode:
    """A cell that installs the package, one for each block of code with the page's output, and one for each text."""
    text = page.read_text(encoding="utf-8")
    cells, end = [new_code_cell(_INSTALL)], 0
    for block in re.finditer(_CODE, text):
        language, code, printed = block.groups()
        outputs = [new_output("stream", name="stdout", text=printed)] if printed else []
        cells.append(new_markdown_cell(_prose(text[end : block.start()])))
        cells.append(new_code_cell(code if language == "python" else f"%%bash\n{code}", outputs=outputs))
        end = block.end()
    cells.append(new_markdown_cell(_prose(text[end:])))
    return new_notebook(cells=[cell for cell in cells if cell.source], metadata=_METADATA)


def _prose(text: str) -> str:
    for pattern, replacement in _REPLACED:
        text = re.sub(pattern, replacement, text)
    return text.strip()


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("notebook", Notebook)
    return {"parallel_read_safe": True}
