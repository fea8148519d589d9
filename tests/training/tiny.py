"""A corpus, a processor and settings small enough to train in a second."""

import json
import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import datasets
import pytest
import yaml
from transformers import BartConfig, BartForConditionalGeneration, PreTrainedTokenizerFast

from hf_summ import GdlfConfig, GdlfForConditionalGeneration, GdlfProcessor
from hf_summ.data import SummarizationCollator
from hf_summ.training.arguments import SummarizationTrainingArguments
from hf_summ.training.loop.trainer import SummarizationTrainer
from hf_summ.training.model import RunModel
from hf_summ.training.model import build as build_model
from hf_summ.training.parsing import parse_arguments
from hf_summ.training.run import run
from tests.data.files import json_lines, write

# the sizes of all models with attention; the dictionaries below are of GDLF
SIZES = {"d_model": 16, "encoder_layers": 1, "decoder_layers": 1, "num_heads": 2, "ffn_dim": 32}
TRANSFORMER = {**SIZES, "dropout": 0.0, "attention_dropout": 0.0, "activation_dropout": 0.0}
KERNELS = {"encoder_kernel_sizes": [3], "decoder_kernel_sizes": [3]}
# compiling would take longer than the test
MODEL = {**SIZES, **KERNELS, "fusion_dim": 32, "tags": "none", "conv_implementation": "chunked"}
NO_DROPOUT = {"dropout": 0.0, "input_dropout": 0.0, "attention_dropout": 0.0, "kernel_dropout": 0.0}


def check(argv: list[str]) -> None:
    """Check the settings of a run, which must not start."""
    run(parse_arguments(argv), on_start=lambda: pytest.fail("the run has started"))


def build(argv: list[str]) -> RunModel:
    """The model, the processor and the lengths of a command."""
    arguments = parse_arguments(argv)
    return build_model(
        arguments.model, arguments.lora, arguments.data, arguments.generation, arguments.training.do_train
    )


def rows(number: int, seed: int = 0) -> list[dict[str, str]]:
    """News of very different lengths."""
    generator = random.Random(seed)
    examples = []
    for index in range(number):
        name = generator.choice(("Ana Lopez", "Ben", "Carla"))
        verb = generator.choice(("opened", "closed"))
        place = generator.choice(("the bridge", "the new school of the old town", "the park"))
        padding = " Residents had asked for it since the flood." * generator.randint(0, 3)
        document = f"{name} {verb} {place} on Monday.{padding}"
        summary = f"{name} {verb} {place}."
        examples.append({"id": f"doc{index}", "document": document, "summary": summary})
    return examples


def write_corpus(folder: Path, **numbers: int) -> dict[str, str]:
    """Write `<split>.jsonl` with the given numbers of rows; returns the flags that name them."""
    flags = {}
    for seed, (split, number) in enumerate(numbers.items()):
        path = folder / f"{split}.jsonl"
        flags[f"{split}_file"] = write_rows(path, rows(number, seed))
    return flags


def write_rows(path: Path, examples: list[dict]) -> str:
    """Write rows as JSON lines; returns the path for a flag."""
    return write(path, json_lines(examples))


def processor(tokenizer: PreTrainedTokenizerFast) -> GdlfProcessor:
    """A processor without tags."""
    return GdlfProcessor(tokenizer, tags="none", max_source_length=48, max_target_length=16)


def gdlf(processor: GdlfProcessor, **settings: Any) -> GdlfForConditionalGeneration:
    """A tiny GDLF that fits the processor."""
    config = GdlfConfig(**(MODEL | NO_DROPOUT | settings))
    processor.align(config)
    return GdlfForConditionalGeneration(config)


def bart(tokenizer: PreTrainedTokenizerFast) -> BartForConditionalGeneration:
    """A tiny BART, the loss of whose class ignores num_items_in_batch."""
    config = BartConfig(
        vocab_size=len(tokenizer),
        d_model=16,
        dropout=0.0,
        attention_dropout=0.0,
        encoder_layers=1,
        encoder_ffn_dim=32,
        encoder_attention_heads=2,
        decoder_layers=1,
        decoder_ffn_dim=32,
        decoder_attention_heads=2,
    )
    config.pad_token_id = 0
    config.bos_token_id = 1
    config.eos_token_id = 2
    config.decoder_start_token_id = 2
    config.forced_eos_token_id = 2
    return BartForConditionalGeneration(config)


def prepared(processor: GdlfProcessor, number: int, seed: int = 0) -> datasets.Dataset:
    """Processed rows with their summaries."""
    texts = rows(number, seed)
    summaries = [row["summary"] for row in texts]
    features = processor([row["document"] for row in texts], summaries)
    return datasets.Dataset.from_dict({**features, "summary": summaries})


def trainer(model, processor, rows, folder: Path, compute_metrics=None, **settings: Any) -> SummarizationTrainer:
    """The trainer of a short run that saves nothing; settings are training arguments."""
    defaults = {"max_steps": 4, "logging_steps": 1, "learning_rate": 1e-2, "save_strategy": "no", "use_cpu": True}
    defaults |= {"output_dir": str(folder), "report_to": ["none"], "disable_tqdm": True}
    return SummarizationTrainer(
        model,
        SummarizationTrainingArguments(**defaults | settings),
        train_dataset=rows,
        eval_dataset=rows,
        data_collator=SummarizationCollator(processor, model=model),
        processing_class=processor,
        compute_metrics=compute_metrics,
    )


def write_settings(folder: Path, **settings: Any) -> str:
    """Write a YAML file for a short CPU run of a tiny GDLF; returns its path."""
    defaults = {"model_type": "gdlf", "config_overrides": MODEL | NO_DROPOUT, "output_dir": str(folder / "out")}
    defaults |= {"optimizer": "adam", "schedule": "cosine", "learning_rate": 1e-2, "warmup_steps": 2, "max_steps": 8}
    defaults |= {"train_tokens_per_batch": 160, "eval_tokens_per_batch": 160, "max_new_tokens": 6, "logging_steps": 1}
    defaults |= {"do_train": True, "use_cpu": True, "save_strategy": "no", "report_to": "none", "disable_tqdm": True}
    path = folder / "settings.yaml"
    path.write_text(yaml.safe_dump(defaults | settings), encoding="utf-8")
    return str(path)


def cut(path: Path) -> None:
    """Truncate a file as if its writer had been killed."""
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def read_json(path: Path) -> Any:
    """The content of a JSON file."""
    return json.loads(path.read_text(encoding="utf-8"))


def history(folder: Path | str, *keys: str) -> list[tuple]:
    """Step and the named values of each training log entry."""
    logged = []
    for entry in read_json(Path(folder) / "trainer_state.json")["log_history"]:
        if keys[0] in entry:
            values = [entry["step"]]
            for key in keys:
                values.append(entry[key])
            logged.append(tuple(values))
    return logged


def prefixed(metrics: dict[str, float], prefix: str, names: Iterable[str]) -> dict[str, float]:
    """The scores of these names from a run's metrics, whose names have a prefix there, such as `predict_`."""
    return {name: metrics[prefix + name] for name in names}
