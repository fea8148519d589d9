"""Checkpoints with a changed or damaged file, used to summarize on the command line."""

import json
import random
import shutil
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from tests.torture import values
from tests.torture.cases import Case
from tests.torture.checks import untouched
from tests.torture.commands import command
from tests.torture.workshop import ARCHITECTURES, Workshop

_TEXT = "Mayor Ana Lopez opened the new bridge over the river on Monday. It cost 12 million euros."
_JSON_FILES = (
    *("config.json", "config.json", "processor_config.json", "tokenizer.json", "tokenizer_config.json"),
    "generation_config.json",
)


def make(draw: random.Random, shop: Workshop, folder: Path) -> Case:
    """One change to one file of a checkpoint."""
    model_type = draw.choice(sorted(ARCHITECTURES))
    checkpoint = folder / "checkpoint"
    shutil.copytree(shop.checkpoint(model_type), checkpoint)
    kind = draw.random()
    must_fail = False
    named: list[str] = []
    if kind < 0.55:
        file = checkpoint / draw.choice(_JSON_FILES)
        content = json.loads(file.read_text(encoding="utf-8"))
        where, named = [], list(content)
        for _ in range(draw.choice((1, 1, 1, 2))):
            content, place = values.spoiled_json(draw, content)
            where.append(place)
        file.write_text(json.dumps(content), encoding="utf-8")
        told = f"{file.name} {where}"
    elif kind < 0.65:
        file = checkpoint / draw.choice(_JSON_FILES)
        file.write_bytes(values.spoiled(draw, file.read_bytes()))
        told = f"spoiled {file.name}"
    elif kind < 0.7:
        file = draw.choice(sorted(checkpoint.iterdir()))
        file.unlink()
        told = f"without {file.name}"
    elif kind < 0.8:
        file = checkpoint / "model.safetensors"
        file.write_bytes(values.spoiled(draw, file.read_bytes()))
        told = "spoiled weights"
    else:
        told, must_fail = _change_weights(draw, checkpoint / "model.safetensors")
    document, summary = folder / "document.txt", folder / "summary.txt"
    document.write_text(_TEXT if draw.random() < 0.8 else values.text(draw), encoding="utf-8", errors="surrogatepass")
    flags: list[Any] = ["--max_new_tokens", 4, "--device", "cpu"]
    more = (["--int8"], ["--together"], ["--format", "jsonl"], ["--num_beams", draw.choice((1, 0, 2))])
    flags += [token for part in more if draw.random() < 0.07 for token in part]

    def problem(_: None) -> str | None:
        if must_fail:
            return f"summarized with weights of which {told}"
        text = summary.read_text(encoding="utf-8")
        return None if text.endswith("\n") else f"the summary is {text!r:.80}"

    return Case(
        f"{model_type} {told} {flags}",
        lambda: command("summarize", document, "--model", checkpoint, "--output", summary, *flags),
        problem,
        untouched(checkpoint, document),
        named,
    )


def _change_weights(draw: random.Random, file: Path) -> tuple[str, bool]:
    """Change one tensor; return the change, and whether summarizing with the result must fail."""
    weights = load_file(file)
    name = draw.choice(sorted(weights))
    tensor = weights[name]
    match draw.randrange(8):
        case 0:
            del weights[name]
            what, must_fail = "is missing", True
        case 1:
            weights["another.weight"] = torch.zeros(2)
            name, what, must_fail = "another.weight", "is unused", True
        case 2:
            tensor.view(-1)[draw.randrange(tensor.numel())] = float(draw.choice(("nan", "inf", "-inf")))
            what, must_fail = "has a value that is not finite", True
        case 3:
            weights[name] = tensor.repeat(2, *[1] * (tensor.ndim - 1))
            what, must_fail = "is too long", True
        case 4:
            weights[name] = tensor.flatten()
            what, must_fail = "is flat", tensor.ndim > 1
        case 5:
            weights[name] = tensor * 1e30
            what, must_fail = "is huge", False
        case 6:
            weights[name] = tensor.to(draw.choice((torch.float16, torch.bfloat16, torch.float64)))
            what, must_fail = "has another type", False
        case _:
            weights[name] = tensor.to(draw.choice((torch.int64, torch.uint8, torch.bool)))
            what, must_fail = "has no floating point", True
    save_file(weights, file, {"format": "pt"})
    return f"{name} {what}", must_fail
