"""What the root holds, public names, a light import, and the direction of imports."""

import importlib
import itertools
import pkgutil
import re
import subprocess
import tomllib
from pathlib import Path

import pytest
from packaging.licenses import canonicalize_license_expression

import hf_summ
from tests.conftest import run_python

ROOT = Path(__file__).parents[1]
AT_THE_ROOT = """
.ci .gitignore benchmarks choices configs docker docs examples model_cards src tests
CHANGELOG.md CITATION.cff CONTRIBUTING.md LICENSE Makefile NOTICE README.md
constraints.txt pyproject.toml run_summarization.py
""".split()
# a path of a person or of a build; the user `service` is that of our container
PATH_OF_A_MACHINE = re.compile(r"(?<![\w.])/(?:root/|work/|Users/\w|home/(?!service\b)\w|tmp/[\w.-]*\d)")
PREFIXES = ("CopyTransformer", "Drgd", "Gdlf", "HighlightTransformer", "PointerGenerator", "SagCopy")
KINDS = ("Config", "ForConditionalGeneration", "Model", "Processor")
ARCHITECTURES = [prefix + kind for prefix, kind in itertools.product(PREFIXES, KINDS)]
FURTHER_NAMES = ["Int8Config", "SummarizationCollator", "SummarizationPipeline", "bundled_model", "summarizer"]
PUBLIC_NAMES = {
    "hf_summ": ARCHITECTURES + FURTHER_NAMES,
    "hf_summ.data": ["Corpus", "SummarizationCollator", "fit_vocabulary", "lead", "load", "split_sentences"],
    "hf_summ.offline": ["Outcome", "summarize_rows"],
    "hf_summ.runtimes": ["OnnxSummarizer"],
    "hf_summ.training": ["train"],
    "hf_summ.evaluation": """
    RougeSettings bleu bootstrap_interval chrf copied_fragments corpus_statistics examples_to_decide holm novelty
    paired_bootstrap paired_randomization perplexity rouge sign_test support
    """.split(),
    "hf_summ.inspection": ["Explanation", "SourceWord", "SummaryWord", "as_page", "explain"],
    "hf_summ.votes": """
    Item Key PROTOCOLS Protocol Sheet Votes as_csv as_page fleiss_kappa krippendorff_alpha make_sheets read_key
    read_votes vote_report
    """.split(),
    "hf_summ.serving": ["Limits", "Service", "create_app"],
    "hf_summ.shortening": ["extract", "windows"],
    "hf_summ.extractive": ["METHODS", "DocumentFrequencies", "ExtractiveSettings", "consistent_extract", "extract"],
}


@pytest.fixture(scope="module")
def tracked() -> list[str]:
    """The paths of all files under version control."""
    done = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"not a clone: {done.stderr}")
    return done.stdout.split("\0")[:-1]


def test_the_root_holds_only_the_project(tracked):
    assert {path.split("/")[0] for path in tracked} == set(AT_THE_ROOT)


def test_no_file_names_a_path_of_a_machine(tracked):
    for path in tracked:
        text = (ROOT / path).read_text(encoding="utf-8", errors="replace")
        assert not PATH_OF_A_MACHINE.search(text), path


def test_the_wheel_has_the_exception_lists_and_their_license(tracked):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    # the wheel has the files under version control
    assert set(project["license-files"]) <= set(tracked)
    # as PEP 639 and the Python Package Index read it
    assert canonicalize_license_expression(project["license"]) == project["license"]
    # one text for each license, and the notice
    texts = [(ROOT / path).read_text(encoding="utf-8") for path in project["license-files"]]
    heads = ("Apache License", "Copyright Allen Institute for AI", "WordNet 2.0 Copyright 2003 by Princeton Univer")
    for text, head in zip(texts, heads, strict=True):
        assert head in text
    assert project["license"].split(" AND ") == ["Apache-2.0", "LicenseRef-WordNet-2.0"]


def test_the_package_has_at_most_75_megabytes(tracked):
    # compressed, the wheel has less
    sizes = [(ROOT / path).stat().st_size for path in tracked if path.startswith("src/hf_summ/")]
    assert sum(sizes) <= 75e6


CASES_OF_VERSIONS = [
    ("CITATION.cff", "\nversion: {}\n"),
    ("examples/kserve/inference_service.yaml", "/hf-summ:{}\n"),
    ("examples/space/requirements.txt", "/hf_summ-{}-py3-none-any.whl\n"),
]


@pytest.mark.parametrize(("file", "form"), CASES_OF_VERSIONS)
def test_the_version_is_that_of_the_package(file, form):
    assert form.format(hf_summ.__version__) in (ROOT / file).read_text(encoding="utf-8")


def test_paths_of_machines_are_known():
    # written without their first character, as this file is looked through too
    for path in ("work/runs/x", "root/.cache", "home/ana/data", "Users/ana", "tmp/q13/x.txt", "tmp/tmp4k2x"):
        assert PATH_OF_A_MACHINE.search(f"`/{path}`"), path
    for text in ("https://x.org/work/3", "/home/service", "/mnt/models", "/tmp/out", "root/", "../work/x"):
        assert not PATH_OF_A_MACHINE.search(text), text


@pytest.mark.parametrize("room", PUBLIC_NAMES)
def test_public_names(room):
    module = importlib.import_module(room)
    assert sorted(module.__all__) == sorted(PUBLIC_NAMES[room])
    for name in module.__all__:
        assert hasattr(module, name), name


def test_import_is_light():
    heavy = """
    datasets evaluate matplotlib numpy peft ray rouge_score sacrebleu spacy torch transformers
    hf_summ.data hf_summ.evaluation hf_summ.models hf_summ.training
    """.split()
    code = f"import sys, hf_summ; print([name for name in {heavy} if name in sys.modules])"
    assert run_python("-c", code) == ("[]\n", "")


def test_imports_run_one_way():
    """A package imports only those before it; `common` and `models` import nothing else of hf_summ.

    The names of `hf_summ` itself lead to all of them.
    """
    rooms = """
    common models runtimes data checkpoints pretrained evaluation extractive
    shortening training experiments inspection votes offline serving cli
    """.split()
    package = ROOT / "src" / "hf_summ"
    modules = []
    for path in package.iterdir():
        if not path.name.startswith("_") and (path.is_dir() or path.suffix == ".py"):
            modules.append(path.stem)
    # the registration stands above all rooms
    assert sorted(modules) == sorted([*rooms, "registration"])
    for place, room in enumerate(rooms):
        allowed = set(rooms[: place + 1])
        if room in ("common", "models"):
            allowed = {room}
        files = list((package / room).rglob("*.py")) + list(package.glob(f"{room}.py"))
        for file in files:
            text = file.read_text(encoding="utf-8")
            imported = re.findall(r"^\s*(?:from|import) hf_summ\.(\w+)", text, re.MULTILINE)
            assert set(imported) <= allowed, file
            names = re.findall(r"^\s*from hf_summ import (.+)", text, re.MULTILINE)
            assert set(names) <= {"__version__"}, file


def test_training_is_a_staircase():
    """A room of training imports only those before it; the settings are one room."""
    steps = {
        "checks": 0,
        "arguments": 0,
        "parsing": 0,
        "losses": 1,
        "optimization": 1,
        "base_model": 1,
        "model": 2,
        "rows": 3,
        "folder": 4,
        "results": 5,
        "loop": 6,
        "run": 7,
    }
    package = ROOT / "src" / "hf_summ" / "training"
    for file in package.rglob("*.py"):
        room = file.relative_to(package).parts[0].removesuffix(".py")
        imported = re.findall(r"^\s*from hf_summ\.training\.(\w+)", file.read_text(encoding="utf-8"), re.MULTILINE)
        assert room in (*steps, "__init__", "__main__"), file
        for name in imported:
            assert steps[name] <= steps.get(room, 7), file


@pytest.mark.parametrize("name", ["hf_summ", "hf_summ.data", "hf_summ.extractive", "hf_summ.inspection"])
def test_no_module_hides_a_lazy_name(name):
    package = importlib.import_module(name)
    assert not {module.name for module in pkgutil.iter_modules(package.__path__)} & set(package.__all__)
