"""Checkpoints with a changed or damaged file, used to summarize on the command line."""

import json
import shutil

from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from tests.doors import models
from tests.doors import strategies as our
from tests.doors.outcomes import command, door, tried, unchanged

_WEIGHTS = "model.safetensors"
_FILES = ("config.json", "processor_config.json", "tokenizer.json", "tokenizer_config.json", "generation_config.json")
_FLAGS = our.few_flags("int8 together format=jsonl num_beams=1|0|2", 1)


def _summarize(folder, text="Mayor Ana Lopez opened the bridge.", flags=()):
    """Summarize a text with the checkpoint in a folder."""
    (document := folder / "document.txt").write_text(text, encoding="utf-8", errors="surrogatepass")
    argv = ["--model", folder / "checkpoint", "--output", folder / "summary.txt", "--max_new_tokens", 4, *flags]
    with unchanged(folder / "checkpoint", document):
        tried(lambda: command("summarize", document, *argv, "--device", "cpu"))
    assert (folder / "summary.txt").read_text(encoding="utf-8").endswith("\n")


@door(data=st.data(), folder=our.folders, model_type=models.types, text=our.texts, flags=_FLAGS)
def test_changed_values(data, folder, model_type, text, flags):
    shutil.copytree(models.checkpoint(model_type), folder / "checkpoint")
    file = folder / "checkpoint" / data.draw(st.sampled_from(("config.json", *_FILES)))
    content = json.loads(file.read_text(encoding="utf-8"))
    file.write_text(json.dumps(data.draw(our.spoiled_json(content))), encoding="utf-8")
    _summarize(folder, text, flags)


@door(data=st.data(), folder=our.folders, model_type=models.types, name=st.sampled_from((*_FILES, _WEIGHTS)))
def test_damaged_files(data, folder, model_type, name):
    file = shutil.copytree(models.checkpoint(model_type), folder / "checkpoint") / name
    file.write_bytes(data.draw(our.spoiled(file.read_bytes())))
    if data.draw(our.mostly(st.just(False), st.just(True))):
        file.unlink()
    _summarize(folder)


@door(data=st.data(), folder=our.folders, model_type=models.types)
def test_changed_weights(data, folder, model_type):
    file = shutil.copytree(models.checkpoint(model_type), folder / "checkpoint") / _WEIGHTS
    weights = load_file(file)
    name = data.draw(st.sampled_from(sorted(weights)))
    tensor = weights.pop(name)
    valid = [{name: one} for one in (tensor * 1e30, tensor.half(), tensor.bfloat16(), tensor.double())]
    shapes = tensor.repeat(2, *[1] * (tensor.ndim - 1)), tensor[None]
    broken = [{}, {name: tensor, "another.weight": tensor}]
    broken += [{name: shape} for shape in shapes]
    change = data.draw(st.sampled_from(valid + broken))
    save_file({key: value.clone() for key, value in (weights | change).items()}, file, {"format": "pt"})
    _summarize(folder)
    assert any(change is one for one in valid)
