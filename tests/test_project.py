"""What a user meets first: public names, a light import, and README's own lines."""

import importlib
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from hf_summ.models import GdlfProcessor
from tests.conftest import SENTENCES
from tests.evaluation.tiny_language_models import save_language_model
from tests.models.architectures import GDLF

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
PREFIXES = ("CopyTransformer", "Gdlf")
KINDS = ("Config", "ForConditionalGeneration", "Model", "Processor")
ARCHITECTURES = [*(prefix + kind for prefix in PREFIXES for kind in KINDS), "SummarizationPipeline"]
# those that README compares, and what stands in for them
LANGUAGE_MODELS = {
    "google-bert/bert-base-uncased": "masked",
    "openai-community/gpt2": "causal",
    "xlnet/xlnet-base-cased": "permutation",
}
PUBLIC_NAMES = {
    "hf_summ": ARCHITECTURES,
    "hf_summ.models": ["LORA_TARGET_MODULES", *ARCHITECTURES],
    "hf_summ.data": ["Corpus", "SummarizationCollator", "fit_vocabulary", "lead", "split_sentences"],
    "hf_summ.evaluation": [
        "bleu",
        "bleu_statistics",
        "bootstrap_interval",
        "bootstrap_interval_of_sums",
        "copied_fragments",
        "copy_positions",
        "corpus_bleu",
        "corpus_statistics",
        "novelty",
        "novelty_scores",
        "paired_bootstrap",
        "paired_bootstrap_of_sums",
        "perplexity",
        "rouge",
        "rouge155_scores",
        "rouge_scores",
    ],
    "hf_summ.extractive": ["METHODS", "extract", "extract_sentences"],
}


@pytest.mark.parametrize("room", PUBLIC_NAMES)
def test_public_names(room):
    module = importlib.import_module(room)
    assert sorted(module.__all__) == sorted(PUBLIC_NAMES[room])
    assert all(hasattr(module, name) for name in module.__all__)


def test_import_is_light():
    heavy = [
        *("datasets", "evaluate", "matplotlib", "rouge_score", "sacrebleu", "spacy", "transformers.trainer"),
        *("hf_summ.experiments", "hf_summ.extractive"),
    ]
    code = f"import sys, hf_summ; print([name for name in {heavy} if name in sys.modules])"
    assert run([sys.executable, "-c", code], ROOT).strip() == "[]"


def test_imports_run_one_way():
    """A room imports those before it; `common` and `models` import nothing of ours."""
    rooms = ["common", "models", "data", "evaluation", "extractive", "training", "experiments", "cli"]
    package = ROOT / "src" / "hf_summ"
    assert sorted(path.name for path in package.iterdir() if path.is_dir() and path.name[0] != "_") == sorted(rooms)
    for place, room in enumerate(rooms):
        allowed = {room} if room in ("common", "models") else {*rooms[: place + 1]}
        for file in (package / room).rglob("*.py"):
            imported = re.findall(r"^\s*(?:from|import) hf_summ\.(\w+)", file.read_text(encoding="utf-8"), re.MULTILINE)
            assert {*imported} <= allowed, file


def test_readme_python_blocks_and_commands_run(tmp_path, local_hub, tiny_tokenizer):
    text = README.read_text(encoding="utf-8")
    GDLF.model(vocab_size=len(tiny_tokenizer), tags="none").float().save_pretrained(tmp_path / "checkpoint")
    GdlfProcessor(tiny_tokenizer, tags="none").save_pretrained(tmp_path / "checkpoint")
    # the Hub repositories that README names, all of them this tiny model
    for name in set(re.findall(r"\borg/[\w.-]+", text)):
        local_hub.publish(name, tmp_path / "checkpoint")
    bert = {"num_hidden_layers": 4, "max_position_embeddings": 512}
    for name, kind in LANGUAGE_MODELS.items():
        local_hub.publish(name, Path(save_language_model(kind, tmp_path / kind, **bert)))
    rows = [{"document": sentence, "summary": sentence[:20]} for sentence in SENTENCES]
    (tmp_path / "corpus").mkdir()
    (tmp_path / "corpus" / "train.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    environment = local_hub.environment(tmp_path / "home")
    blocks = re.findall(r"^```python\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)
    assert blocks
    given = f"document = {' '.join(SENTENCES)!r}\ndocuments = [document, document]\n"
    run([sys.executable, "-c", given + "\n".join(blocks)], tmp_path, environment)
    for command in re.findall(r"^hf-summ .+", text.replace("\\\n", " "), flags=re.MULTILINE):
        words = shlex.split(command, comments=True)
        for word in words:
            if word.endswith(".txt") and not (tmp_path / word).exists():
                (tmp_path / word).write_text("\n".join(SENTENCES), encoding="utf-8")
        run([sys.executable, "-m", "hf_summ", *words[1:]], tmp_path, environment)


def run(command: list[str], folder: Path, environment: dict[str, str] | None = None) -> str:
    """Standard output of a command that has to succeed."""
    done = subprocess.run(
        command, cwd=folder, env={**os.environ, **(environment or {})}, capture_output=True, text=True
    )
    assert done.returncode == 0, f"{shlex.join(command)}\n{done.stderr}"
    return done.stdout
