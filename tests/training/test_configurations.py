"""Every file under configs/ trains: its first updates, with its widths, rates and losses, lower the loss."""

import itertools
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoConfig, BertConfig, BertForPreTraining

from hf_summ.data.toy_news import articles
from hf_summ.data.vocabulary import fit_phrases, fit_processor
from hf_summ.experiments.settings import with_data
from hf_summ.training.parsing import make_arguments, merged, read_settings
from hf_summ.training.run import run
from tests.conftest import save, word_piece_tokenizer
from tests.test_configs import CONFIGS, FILES
from tests.training import tiny

UPDATES = 20
# one layer each, and what depends on their number; compiling would take longer than the test
SHALLOW = {
    "encoder_layers": 1,
    "decoder_layers": 1,
    "encoder_kernel_sizes": [3],
    "decoder_kernel_sizes": [3],
    "convolutional_layers": 1,
    "lit_layers": [0],
    "conv_implementation": "chunked",
}
SHORT = {"max_source_length": 24, "max_target_length": 12, "val_max_target_length": 12}
# the loss of the same rows without dropout, before the first update and after each
WATCHED = {
    "max_steps": UPDATES,
    "do_predict": False,
    "predict_with_generate": False,
    "eval_on_start": True,
    "eval_strategy": "steps",
    "eval_steps": 1,
    "save_strategy": "no",
    "load_best_model_at_end": None,
    "metric_for_best_model": None,
    "greater_is_better": None,
    "early_stopping_patience": None,
    "logging_steps": 1,
    "report_to": ["none"],
    "use_cpu": True,
    "disable_tqdm": True,
}
# as many as a batch has examples, up to a number that trains in seconds; and for batches measured in tokens
MOST_ROWS, TOKEN_ROWS = 32, 6
ROWS = [*articles("train", MOST_ROWS, 1)]
TEXTS = [text for row in ROWS for text in (row["document"], row["summary"])]
# BERT's layers that a CopyTransformer reads
BERT_LAYERS = 4


@pytest.fixture(scope="module")
def save_bert(tmp_path_factory):
    """Saves BERTs of a few layers, and returns the folder of one that has these sizes."""
    folders: dict[tuple[int, ...], str] = {}

    def saved(sizes: dict[str, Any]) -> str:
        names = ("hidden_size", "num_attention_heads", "intermediate_size")
        widths = tuple(sizes[name] for name in names)
        if widths not in folders:
            tokenizer = word_piece_tokenizer(TEXTS, 200)
            config = BertConfig(
                vocab_size=len(tokenizer), num_hidden_layers=BERT_LAYERS, **dict(zip(names, widths, strict=True))
            )
            folders[widths] = save(tmp_path_factory.mktemp("bert"), tokenizer, BertForPreTraining(config))
        return folders[widths]

    return saved


def tagged(row: dict[str, str]) -> dict[str, Any]:
    """The row with a tag for each word."""
    words = re.findall(r"\w+|[^\w\s]", row["document"])
    return {**row, "word_tags": [[word, "NN" if word.isalnum() else "."] for word in words]}


def units_of(file: Path) -> str:
    """The units of the vocabulary that the command in a file's header fits."""
    command = re.search(r"hf-summ vocabulary .*--units (\w+)", file.read_text("utf-8").replace(" \\\n#", ""))
    return "subwords" if command is None else command[1]


def with_start(settings: dict[str, Any]) -> dict[str, Any]:
    """A run that continues from another file's output, with a new model of that file."""
    start = settings.get("model_name_or_path", "")
    if not start.startswith("out/"):
        return settings
    first = read_settings(str(CONFIGS / f"{start.removeprefix('out/')}.yaml"))
    overrides = {**first["config_overrides"], **settings["config_overrides"]}
    kept = {name: value for name, value in settings.items() if name != "model_name_or_path"}
    return {**kept, "model_type": first["model_type"], "config_overrides": overrides}


def small_parts(settings: dict[str, Any], units: str, folder: Path, save_bert) -> dict[str, Any]:
    """A file's settings of the model with a small vocabulary and few layers."""
    if "model_name_or_path" in settings:
        # a bundled model, as it is
        return {}
    model_type = settings["model_type"]
    values = settings["config_overrides"]
    overrides = {name: value for name, value in SHALLOW.items() if hasattr(AutoConfig.for_model(model_type), name)}
    if "bert_config" in values:
        processor = save_bert(values["bert_config"])
        overrides["bert_name"] = processor
    elif model_type == "sagcopy":
        # the words of a BERT, but without the weights of MASS
        processor = save_bert(BertConfig().to_dict())
        overrides["start_name"] = None
    else:
        tags = values.get("tags", "none")
        tagging = {"tags": tags, "tagger": None, "tag_vocabulary": ["NN", "."]}
        fitted = fit_processor(TEXTS, 300, lowercase=True, units=units, **tagging)
        if model_type == "highlight_transformer":
            fitted = fit_phrases([row["document"] for row in ROWS], fitted)
        processor = save(folder / "processor", fitted)
    return {"tokenizer_name": processor, "config_overrides": overrides}


def losses_of_updates(file: Path, folder: Path, save_bert) -> list[float]:
    """The loss before the first update of a file's run, and after each."""
    settings = with_start(read_settings(str(file)))
    rows = ROWS[: settings.get("per_device_train_batch_size", TOKEN_ROWS)]
    corpus = tiny.write_rows(folder / "rows.jsonl", [tagged(row) for row in rows])
    settings = with_data(settings, {"train_file": corpus, "validation_file": corpus})
    parts = small_parts(settings, units_of(file), folder, save_bert)
    small = {**parts, **SHORT, **WATCHED, "output_dir": str(folder / "out")}
    run(make_arguments(merged(settings, small)))
    return [loss for _, loss in tiny.history(folder / "out", "eval_loss")]


@pytest.mark.thorough
@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(CONFIGS)))
def test_first_updates_lower_the_loss(file, tmp_path, save_bert):
    torch.manual_seed(0)
    losses = losses_of_updates(file, tmp_path, save_bert)
    assert len(losses) == 1 + UPDATES
    for before, after in itertools.pairwise(losses):
        assert after < 1.5 * before
    assert losses[-1] < losses[0]
