"""Checkpoints with a changed or damaged file, used to summarize on the command line."""

import json
import shutil

from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from tests.doors import models, strategies
from tests.doors.outcomes import command, door, tried, unchanged

_WEIGHTS = "model.safetensors"
_FILES = ("config.json", "processor_config.json", "tokenizer.json", "tokenizer_config.json", "generation_config.json")
_FLAGS = strategies.few_flags("int8 together format=jsonl num_beams=1|0|2", 1)


def _summarize(folder, text="Mayor Ana Lopez opened the bridge.", flags=()):
    """Summarize a text with the checkpoint in a folder."""
    document, summary = folder / "document.txt", folder / "summary.txt"
    document.write_text(text, encoding="utf-8", errors="surrogatepass")
    argv = ["--model", folder / "checkpoint", "--output", summary, "--max_new_tokens", 4, *flags, "--device", "cpu"]
    with unchanged(folder / "checkpoint", document):
        tried(lambda: command("summarize", document, *argv))
    assert summary.read_text(encoding="utf-8").endswith("\n")


@door(data=st.data(), folder=strategies.folders, model_type=models.types, text=strategies.texts, flags=_FLAGS)
def test_changed_values(data, folder, model_type, text, flags):
    shutil.copytree(models.checkpoint(model_type), folder / "checkpoint")
    # twice as often as the other files
    name = data.draw(st.sampled_from(("config.json", *_FILES)))
    file = folder / "checkpoint" / name
    content = json.loads(file.read_text(encoding="utf-8"))
    changed = data.draw(strategies.spoiled_json(content))
    file.write_text(json.dumps(changed), encoding="utf-8")
    _summarize(folder, text, flags)


@door(data=st.data(), folder=strategies.folders, model_type=models.types, name=st.sampled_from((*_FILES, _WEIGHTS)))
def test_damaged_files(data, folder, model_type, name):
    checkpoint = shutil.copytree(models.checkpoint(model_type), folder / "checkpoint")
    file = checkpoint / name
    content = data.draw(strategies.spoiled(file.read_bytes()))
    file.write_bytes(content)
    is_removed = data.draw(strategies.mostly(st.just(False), st.just(True)))
    if is_removed:
        file.unlink()
    _summarize(folder)


@door(data=st.data(), folder=strategies.folders, model_type=models.types)
def test_changed_weights(data, folder, model_type):
    checkpoint = shutil.copytree(models.checkpoint(model_type), folder / "checkpoint")
    file = checkpoint / _WEIGHTS
    weights = load_file(file)
    name = data.draw(st.sampled_from(sorted(weights)))
    tensor = weights.pop(name)
    valid = [{name: tensor * 1e30}, {name: tensor.half()}, {name: tensor.bfloat16()}, {name: tensor.double()}]
    # a missing weight, one too many, a doubled first dimension, and one more dimension
    broken = [{}, {name: tensor, "another.weight": tensor}]
    repeats = [2] + [1] * (tensor.ndim - 1)
    broken += [{name: tensor.repeat(repeats)}, {name: tensor[None]}]
    number = data.draw(st.sampled_from(range(len(valid + broken))))
    change = (valid + broken)[number]
    # tensors of a file must not share memory
    changed = {key: value.clone() for key, value in (weights | change).items()}
    save_file(changed, file, {"format": "pt"})
    _summarize(folder)
    assert number < len(valid)
