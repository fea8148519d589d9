"""README and docs/: their commands run, the things they name exist, and the pages build."""

import dataclasses
import importlib.util
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from pkgutil import resolve_name

import nbformat
import pytest

from hf_summ import GdlfProcessor
from hf_summ.cli import main
from hf_summ.training.arguments import GROUPS
from tests.conftest import SENTENCES, save
from tests.data.files import json_lines, write
from tests.evaluation.tiny_language_models import save_language_model
from tests.models.architectures import GDLF, HIGHLIGHT_TRANSFORMER, build_with_processor
from tests.training.tiny import bart

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
GUIDES, TUTORIALS = sorted(DOCS.glob("*.md")), sorted(DOCS.glob("tutorials/*.md"))
AT_THE_ROOT = [ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "configs/README.md")]
PAGES = [*AT_THE_ROOT, *GUIDES, *TUTORIALS]
TEXTS = {page: page.read_text(encoding="utf-8") for page in PAGES}
# the language models that a page compares, and what stands in for them
LANGUAGE_MODELS = {
    "google-bert/bert-base-uncased": "masked",
    "openai-community/gpt2": "causal",
    "xlnet/xlnet-base-cased": "permutation",
}
# the other Hub repositories that pages name, and what stands in for them
CHECKPOINTS = {
    "facebook/bart-base": "bart",
    "facebook/bart-large-cnn": "bart",
    "org/gdlf-xsum": "gdlf",
    "org/highlight": "highlight",
}
# flags of other programs than ours
FOREIGN_FLAGS = set(
    """
    cpus dtypes fsdp_version hypothesis logdir models multi_gpu num_processes rounds rows runtimes_only
    settings source steered stop systems target test train use_fsdp validation
    """.split()
)


@pytest.mark.thorough
@pytest.mark.parametrize("pages", [[ROOT / "README.md"], TUTORIALS, GUIDES], ids=["README", "tutorials", "guides"])
def test_blocks_run(pages, tmp_path, local_hub, tiny_tokenizer):
    publish(local_hub, tmp_path / "models", tiny_tokenizer)
    furnish(tmp_path / "repository", tmp_path / "models" / "gdlf")
    notebooks = extension("notebooks")
    for number, page in enumerate(pages):
        if "```{notebook}" in TEXTS[page]:
            pages[number] = tmp_path / f"{page.stem}.ipynb"
            nbformat.write(notebooks.as_notebook(page), pages[number])
    command = [sys.executable, str(ROOT / "tests" / "run_pages.py")]
    command += [str(page) for page in pages]
    run(command, tmp_path / "repository", local_hub.environment(tmp_path / "home"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_flags_exist(page, capsys):
    known = set(FOREIGN_FLAGS)
    for group in GROUPS:
        known.update(field.name for field in dataclasses.fields(group))
    for command in set(re.findall(r"hf-summ ([a-z][a-z-]*(?: (?:make|collect))?)", TEXTS[page])):
        try:
            status = main([*command.split(), "--help"])
        except SystemExit as end:
            status = end.code
        assert status == 0
        known.update(re.findall(r"--(\w+)", capsys.readouterr().out))
    known.update([f"no_{name}" for name in known])
    assert set(re.findall(r"(?<![\w-])--([a-z]\w*)", TEXTS[page])) <= known


@pytest.mark.parametrize("page", AT_THE_ROOT, ids=lambda page: str(page.relative_to(ROOT)))
def test_files_that_are_linked_to_exist(page):
    # the links of docs/ are checked when its pages are built
    links = re.findall(r"\]\((?!https?:)([^)#]+)", TEXTS[page])
    assert not [link for link in links if not (page.parent / link).exists()]


def test_readme_is_short():
    text = TEXTS[ROOT / "README.md"]
    assert len(text.split()) <= 850
    assert text.count("\n") <= 150


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_code_fits_its_column(page):
    blocks = re.findall(r"^```(.*?)\n(.*?)^```$", TEXTS[page], re.MULTILINE | re.DOTALL)
    for kind, text in blocks:
        is_code = not re.match(r"\{(?!code)", kind)
        if is_code:
            for line in text.splitlines():
                assert len(line) <= 80, line


EQUATIONS = (DOCS / "equations.md").read_text(encoding="utf-8")


def test_sections_of_equations_that_are_cited_exist():
    sections = set(re.findall(r"^## (\d) ", EQUATIONS, re.MULTILINE))
    cited = {}
    for folder in ("src", "tests", "configs", "docs"):
        for path in (ROOT / folder).rglob("*.*"):
            if path.suffix in (".py", ".yaml", ".md"):
                text = path.read_text(encoding="utf-8")
                cited[path] = set(re.findall(r"equations\.md(?:, section |#)(\d+)", text))
    for path, numbers in cited.items():
        assert numbers <= sections, path
    assert set().union(*cited.values()) == sections


def test_what_computes_equations_exists():
    names = set(re.findall(r"`([a-z_]+(?:\.\w+)+)`", EQUATIONS))
    assert len(names) > 50
    for name in names:
        if not name.startswith("hf_summ."):
            name = f"hf_summ.models.{name}"
        resolve_name(name)


@pytest.mark.thorough
def test_pages_build(tmp_path):
    run([sys.executable, "-m", "sphinx", "--fail-on-warning", "--quiet", str(DOCS), str(tmp_path / "pages")], ROOT)
    assert "--train_tokens_per_batch" in (tmp_path / "pages" / "flags.html").read_text(encoding="utf-8")


class Documented:
    """Takes a `width`."""

    def __init__(self, width: int):
        self.width = width

    def grow(self, by: int) -> None:
        """Wider."""

    def shrink(self, by: int) -> None: ...

    def _hidden(self, by: int) -> None: ...


def as_novelty(predictions: list[str], sources: list[str], language: str, colour: str) -> None:
    """As `novelty`."""


CASES_OF_DOCSTRINGS = [
    (Documented, ["x.grow: the docstring does not name by", "x.shrink has no docstring"]),
    (as_novelty, ["x: the docstring does not name colour"]),
    (lambda: None, ["x has no docstring"]),
    (("lead", "tail"), []),
]


@pytest.mark.parametrize(("thing", "problems"), CASES_OF_DOCSTRINGS)
def test_undocumented_parameters_are_found(thing, problems):
    public_names = extension("public_names")
    assert list(public_names.undocumented("x", thing)) == problems


def test_drawings_have_boxes_and_arrows():
    svg = extension("drawings").draw("A & B", ["words | summary", "* encoder -> attention", ". | * output"])
    assert svg.count("<rect") == 5
    # arrows down: words to encoder, summary to attention, attention to output; to the right: encoder to attention
    assert svg.count("<path") == 4
    assert svg.count('class="new"') == 2
    assert "A &amp; B" in svg
    assert "*" not in svg


def test_bars_of_the_speed_table():
    bars = extension("speed_bars")
    rows = bars.rows_of("| work | with | times |\n\n| `a` | b | 0.92, 7.8 (0.2) | 2026 | `c.py` |\n")
    assert [(row.work, row.ratios) for row in rows] == [("a vs. b", (0.92, 7.8))]
    # the picture on the page is of its table
    drawn = bars.draw(bars.rows_of(TEXTS[DOCS / "speed.md"]))
    assert drawn == (DOCS / "images" / "speed.svg").read_text(encoding="utf-8")


def test_a_notebook_has_the_blocks_of_its_page_as_cells(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "# Title\n\n```{notebook}\n```\n\n[Here](a.md) and [there](https://b.org):\n\n```python\nprint(1)\n```\n\n"
        "```output\n1\n```\n\n```bash\nls \\\n    -l\n```\n\n```{code-block} python\nx\n```\n",
        encoding="utf-8",
    )
    notebook = extension("notebooks").as_notebook(page)
    nbformat.validate(notebook)
    assert [(cell.cell_type, cell.source) for cell in notebook.cells] == [
        ("code", "# in a clone of the repository\n%pip install --quiet torch ."),
        ("markdown", "# Title\n\nHere and [there](https://b.org):"),
        ("code", "print(1)"),
        ("code", "%%bash\nls \\\n    -l"),
        ("markdown", "```python\nx\n```"),
    ]
    assert notebook.cells[2].outputs[0].text == "1\n"


def test_sentences_of_a_page_are_without_code_and_tables():
    text = (
        "# Title\n\nOne *is* here. Two\nis [there](a.md).\n\n- three\n- four\n\n```python\nx = 1.\n```\n\n| a | b |\n"
    )
    assert extension("sentence_lengths").sentences(text) == ["One *is* here.", "Two is [there].", "three", "four"]


def extension(name: str):
    """A module of docs/extensions, which is no package."""
    spec = importlib.util.spec_from_file_location(name, DOCS / "extensions" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def publish(hub, folder: Path, tokenizer) -> None:
    """The Hub repositories that the pages name, all of them tiny."""
    gdlf = GDLF.model(vocab_size=len(tokenizer), tags="none").float()
    save(folder / "gdlf", gdlf, GdlfProcessor(tokenizer, tags="none"))
    save(folder / "highlight", *build_with_processor(HIGHLIGHT_TRANSFORMER, tokenizer))
    save(folder / "bart", bart(tokenizer), tokenizer)
    for name, kind in CHECKPOINTS.items():
        hub.publish(name, folder / kind)
    for name, kind in LANGUAGE_MODELS.items():
        sizes = {"num_hidden_layers": 4, "max_position_embeddings": 512}
        hub.publish(name, Path(save_language_model(kind, folder / kind, **sizes)))


def furnish(folder: Path, model: Path) -> None:
    """Fill a folder with what readers of the pages have: the repository, a corpus, texts, the quickstart's results."""
    rows = [{"document": sentence, "summary": sentence[:20]} for sentence in SENTENCES]
    for corpus in (folder / "corpus", folder / "build" / "quickstart" / "data"):
        corpus.mkdir(parents=True)
        for split in ("train", "validation", "test"):
            write(corpus / f"{split}.jsonl", json_lines(rows))
    (folder / "build" / "quickstart" / "model").symlink_to(model)
    for name in ("configs", "examples"):
        (folder / name).symlink_to(ROOT / name)
    for name in re.findall(r"\b[\w-]+\.txt\b", " ".join(TEXTS.values())):
        (folder / name).write_text("\n".join(SENTENCES), encoding="utf-8")


def run(command: list[str], folder: Path, environment: dict[str, str] | None = None) -> str:
    """Standard output of a command that has to succeed."""
    environment = {**os.environ, **(environment or {})}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, f"{shlex.join(command)}\n{done.stderr}"
    return done.stdout
