"""The environment of every test: one thread, no network, a separate cache, fixed seeds."""

import functools
import gc
import logging
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

ROOT = Path(__file__).parents[1]
# libraries read these at import, and test modules import them after this file
CACHE = tempfile.mkdtemp(prefix="hf_summ_tests_")
os.environ.update(HF_HOME=CACHE, HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false", OMP_NUM_THREADS="1")
# results must not depend on the processor's instructions
os.environ["ACCELERATE_MIXED_PRECISION"] = "no"

import pytest
from hypothesis import HealthCheck, settings

from tests.browser import open_browser
from tests.data.files import change_json
from tests.hub import LocalHub

# slow libraries are imported where they are used: the process that starts the workers needs none
if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

# examples and results must not depend on the machine and its speed; with the profile thorough, tests/doors tries more
# inputs, and with that of `make torture` it tries new inputs each time
portable = settings(deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("portable", portable)
settings.register_profile("thorough", portable)
settings.register_profile("torture", portable, derandomize=False, print_blob=True)
settings.load_profile("portable")

SENTENCES = [
    "Mayor Ana Lopez opened the new bridge over the river on Monday.",
    "The bridge cost 12 million euros and took three years to build.",
    "Residents of the old town had asked for it since the flood of 2009.",
    "Engineers said that the crossing carries 4,000 cars an hour.",
    "Critics called the price too high, and the council promised a report.",
]


def first(values: Iterable[Any], number: int = 1) -> list[Any]:
    """The values of a parameter, of which `make test` runs the first ones."""
    values = list(values)
    thorough_values = [pytest.param(value, marks=pytest.mark.thorough) for value in values[number:]]
    return values[:number] + thorough_values


def save(folder: str | Path, *components: Any) -> str:
    """Save a model and its tokenizer or processor in one folder."""
    for component in components:
        component.save_pretrained(folder)
    return str(folder)


def start(*arguments: str, cwd: Path | None = None, **environment: str) -> subprocess.Popen:
    """Start Python with this repository's package; Ctrl-C reaches it even if the tests run in the background."""
    path = str(ROOT / "src")
    if os.environ.get("PYTHONPATH"):
        path += os.pathsep + os.environ["PYTHONPATH"]
    return subprocess.Popen(
        [sys.executable, *arguments],
        env={**os.environ, "PYTHONPATH": path, **environment},
        cwd=cwd,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
    )


def run_python(*arguments: str, status: int = 0, **settings: Any) -> tuple[str, str]:
    """The output and the messages of a process that ends with this status; the settings are as for `start`."""
    process = start(*arguments, **settings)
    output, errors = process.communicate()
    assert process.returncode == status, errors
    return output, errors


def word_piece_tokenizer(texts: list[str], vocab_size: int, **settings) -> "PreTrainedTokenizerFast":
    """A tokenizer like BERT's, fitted on the texts: lower case, `[CLS]`, `[SEP]` and `[MASK]`, no end token."""
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    special = {f"{name}_token": f"[{name.upper()}]" for name in ("pad", "unk", "cls", "sep", "mask")}
    normalizer = normalizers.BertNormalizer()
    splitter = pre_tokenizers.BertPreTokenizer()
    counts: Counter[str] = Counter()
    for text in texts:
        words = splitter.pre_tokenize_str(normalizer.normalize_str(text))
        counts.update(word for word, _ in words)
    # the pieces are letters and the most frequent words; those of WordPieceTrainer differ from process to process
    letters = sorted(set("".join(counts)))
    pieces = [*special.values(), *letters]
    pieces += [f"##{letter}" for letter in letters]
    frequent_words = [word for word, _ in counts.most_common() if len(word) > 1]
    pieces += frequent_words[: max(0, vocab_size - len(pieces))]
    ids = {piece: number for number, piece in enumerate(pieces)}
    tokenizer = Tokenizer(models.WordPiece(ids, unk_token="[UNK]"))
    tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = splitter
    tokenizer.decoder = decoders.WordPiece()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special, **settings)


def pair_tokenizer() -> "PreTrainedTokenizerFast":
    """A tokenizer fitted on `SENTENCES` that encodes pairs of texts as BERT's does."""
    from tokenizers import processors

    tokenizer = word_piece_tokenizer(SENTENCES, 200)
    separator = ("[SEP]", tokenizer.convert_tokens_to_ids("[SEP]"))
    start = ("[CLS]", tokenizer.convert_tokens_to_ids("[CLS]"))
    tokenizer.backend_tokenizer.post_processor = processors.BertProcessing(separator, start)
    return tokenizer


def pytest_unconfigure() -> None:
    shutil.rmtree(CACHE, ignore_errors=True)


@pytest.fixture(scope="module", autouse=True)
def frozen_libraries() -> None:
    """Exempts the million objects of loaded libraries from garbage collection, which runs often in training."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def seed() -> None:
    """The same random numbers for every test, regardless of those before it."""
    import numpy as np
    import torch

    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)


@pytest.fixture(autouse=True)
def log_levels() -> Iterator[None]:
    """Restores log levels, which a training run or a service in the test's process sets globally."""
    loggers = [logging.getLogger(name) for name in ("datasets", "hf_summ", "transformers")]
    levels = [logger.level for logger in loggers]
    yield
    for logger, level in zip(loggers, levels, strict=True):
        logger.setLevel(level)


@pytest.fixture
def local_hub() -> Iterator[LocalHub]:
    """A Hub for the test, which fails if anything was requested that the Hub does not serve."""
    with LocalHub() as hub:
        yield hub
    assert not hub.unknown_requests


@pytest.fixture(scope="session")
def tiny_tokenizer() -> "PreTrainedTokenizerFast":
    """A byte-level BPE of 400 tokens, fitted on `SENTENCES`; shared by the session, so never change it."""
    from hf_summ.data import fit_vocabulary

    return fit_vocabulary(SENTENCES, vocab_size=400, show_progress=False)


def save_bundled_model(folder: Path, tokenizer: "PreTrainedTokenizerFast") -> None:
    """A folder like those of the models in the package: a tiny model that copies, in half precision."""
    from tests.models.architectures import HIGHLIGHT_TRANSFORMER, build_with_processor

    model, processor = build_with_processor(HIGHLIGHT_TRANSFORMER, tokenizer)
    save(folder, model.half(), processor)
    change_json(folder / "config.json", dtype="float32")
    (folder / "purpose.txt").write_text("titles of news\n", encoding="utf-8")


@pytest.fixture
def shipped(tiny_tokenizer, tmp_path_factory, monkeypatch) -> Path:
    """The folder of a tiny model that replaces those in the package."""
    folder = tmp_path_factory.mktemp("pretrained") / "arxiv-tldr"
    monkeypatch.setattr("hf_summ.pretrained.FOLDER", folder.parent)
    save_bundled_model(folder, tiny_tokenizer)
    return folder


@pytest.fixture
def read_texts(monkeypatch) -> list[str]:
    """Every text that a real tokenizer has read, in order."""
    from transformers import PreTrainedTokenizerFast

    texts: list[str] = []
    encode = PreTrainedTokenizerFast.__call__

    def recording_encode(self, text=None, *args, text_target=None, **kwargs):
        for argument in (text, text_target):
            if isinstance(argument, str):
                texts.append(argument)
            elif argument:
                texts.extend(argument)
        return encode(self, text, *args, text_target=text_target, **kwargs)

    monkeypatch.setattr(PreTrainedTokenizerFast, "__call__", recording_encode)
    return texts


@pytest.fixture(scope="module")
def browser():
    """A real browser; tests that need it are skipped without one."""
    with open_browser() as opened:
        yield opened


@pytest.fixture
def shown(browser, tmp_path):
    """Shows a page, and checks at the end that no tab had an error or sent a request."""
    problems: list[str] = []
    requests: list[str] = []
    contexts = []

    def show(page: str, **settings):
        (tmp_path / "page.html").write_text(page, encoding="utf-8")
        context = browser.new_context(offline=True, **settings)
        contexts.append(context)
        context.on("console", lambda message: problems.append(message.text))
        context.on("weberror", lambda error: problems.append(str(error.error)))
        context.on("dialog", lambda dialog: problems.append(dialog.message))
        context.on("request", lambda request: requests.append(request.url))
        tab = context.new_page()
        tab.goto(f"file://{tmp_path}/page.html")
        return tab

    yield show
    for context in contexts:
        context.close()
    assert problems == []
    # allowed: the page itself, and data that it made
    assert [url for url in requests if not url.startswith(("file:", "blob:"))] == []
