"""Public names, a light import, and the direction of imports."""

import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PREFIXES = ("CopyTransformer", "Drgd", "Gdlf", "HighlightTransformer", "SagCopy")
KINDS = ("Config", "ForConditionalGeneration", "Model", "Processor")
ARCHITECTURES = [*(prefix + kind for prefix in PREFIXES for kind in KINDS), "Int8Config", "SummarizationPipeline"]
PUBLIC_NAMES = {
    "hf_summ": [*ARCHITECTURES, "SummarizationCollator"],
    "hf_summ.data": ["Corpus", "SummarizationCollator", "fit_vocabulary", "lead", "load", "split_sentences"],
    "hf_summ.evaluation": [
        "bleu",
        "bleu_statistics",
        "bootstrap_interval",
        "bootstrap_interval_of_sums",
        "copied_fragments",
        "copy_positions",
        "corpus_bleu",
        "corpus_statistics",
        "examples_to_decide",
        "fleiss_kappa",
        "krippendorff_alpha",
        "novelty",
        "novelty_scores",
        "paired_bootstrap",
        "paired_bootstrap_of_sums",
        "paired_randomization",
        "perplexity",
        "phrase_recall",
        "phrase_recall_scores",
        "rouge",
        "rouge155_scores",
        "rouge_scores",
        "sign_test",
    ],
    "hf_summ.inspection": ["Explanation", "SourceWord", "SummaryWord", "as_page", "explain"],
    "hf_summ.votes": [
        "Item",
        "Key",
        "PROTOCOLS",
        "Protocol",
        "Sheet",
        "Votes",
        "as_csv",
        "as_page",
        "make_sheets",
        "read_key",
        "read_votes",
        "vote_report",
    ],
    "hf_summ.serving": ["Limits", "Service", "answer", "create_app"],
    "hf_summ.shortening": ["extract", "windows"],
    "hf_summ.extractive": [
        *("METHODS", "DocumentFrequencies"),
        *("consistent_extract", "consistent_sentences", "extract", "extract_sentences"),
    ],
}


@pytest.mark.parametrize("room", PUBLIC_NAMES)
def test_public_names(room):
    module = importlib.import_module(room)
    assert sorted(module.__all__) == sorted(PUBLIC_NAMES[room])
    assert all(hasattr(module, name) for name in module.__all__)


def test_import_is_light():
    heavy = [
        *("datasets", "evaluate", "matplotlib", "numpy", "peft", "ray", "rouge_score", "sacrebleu", "spacy", "torch"),
        *("transformers", "hf_summ.data", "hf_summ.evaluation", "hf_summ.models", "hf_summ.training"),
    ]
    code = f"import sys, hf_summ; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_imports_run_one_way():
    """A package imports only those before it; `common` and `models` import nothing else of hf_summ."""
    rooms = [
        "common",
        "models",
        "data",
        "evaluation",
        "extractive",
        "shortening",
        "training",
        "experiments",
        "inspection",
        "votes",
        "offline",
        "serving",
        "cli",
    ]
    package = ROOT / "src" / "hf_summ"
    assert sorted(path.name for path in package.iterdir() if path.is_dir() and path.name[0] != "_") == sorted(rooms)
    for place, room in enumerate(rooms):
        allowed = {room} if room in ("common", "models") else {*rooms[: place + 1]}
        for file in (package / room).rglob("*.py"):
            imported = re.findall(r"^\s*(?:from|import) hf_summ\.(\w+)", file.read_text(encoding="utf-8"), re.MULTILINE)
            assert {*imported} <= allowed, file
