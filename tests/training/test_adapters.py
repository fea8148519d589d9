"""LoRA as a flag of a run, and adapters as its checkpoints."""

import json
import re
import shutil
from functools import partial
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModelForSeq2SeqLM, pipeline

from hf_summ.checkpoints.adapters import Adapter, AutoModelForSummarization, UnusableAdapterError, save_settings
from hf_summ.checkpoints.loading import ModelArguments
from hf_summ.cli import main as hf_summ
from hf_summ.pretrained import load_pipeline
from hf_summ.runtimes.folders import model_identity
from hf_summ.training.__main__ import main as run_recipe
from hf_summ.training.run import main
from tests.conftest import run_python, save
from tests.data.files import change_json, read_rows
from tests.training import tiny

LORA = ["--lora_r", "2", "--lora_dropout", "0.1", "--learning_rate", "0.5"]
WEIGHTS = "adapter_model.safetensors"


@pytest.fixture(scope="module")
def bases(tmp_path_factory, tiny_tokenizer) -> dict[str, str]:
    """Saved models with their processors, as one fine-tunes them."""
    processor = tiny.processor(tiny_tokenizer)
    return {
        "gdlf": save(tmp_path_factory.mktemp("gdlf"), tiny.gdlf(processor), processor),
        "bart": save(tmp_path_factory.mktemp("bart"), tiny.bart(tiny_tokenizer), tiny_tokenizer),
    }


@pytest.fixture
def command(settings, tmp_path, bases):
    """The arguments of a run that begins with a checkpoint."""

    def make(start: str, *flags: str, folder: str = "adapter", **changes) -> list[str]:
        unset = {"model_type": None, "config_overrides": None, "tokenizer_name": None}
        file = settings(**unset, predict_with_generate=True, **changes)
        start = bases.get(start, start)
        return [file, "--model_name_or_path", start, "--output_dir", str(tmp_path / folder), *flags]

    return make


@pytest.mark.thorough
@pytest.mark.parametrize("base", ["gdlf", "bart"])
def test_an_adapter_is_trained_and_loaded(command, tmp_path, bases, base):
    metrics = main(command(base, *LORA, "--num_beams", "3", do_eval=True))
    folder = tmp_path / "adapter"
    assert not (folder / "model.safetensors").exists()
    weights = load_file(folder / WEIGHTS)
    assert all("lora_" in name for name in weights)
    assert json.loads((folder / "adapter_config.json").read_text())["lora_alpha"] == 4
    assert max(tensor.abs().max() for name, tensor in weights.items() if "lora_B" in name) > 1e-3

    # a separate evaluation gives the loss of the end of the training, which is not that of the base
    evaluated = main(command(str(folder), folder="evaluated", do_eval=True, do_train=False))
    assert evaluated["eval_loss"] == pytest.approx(metrics["eval_loss"], rel=1e-6)
    evaluated_base = main(command(base, folder="evaluated_base", do_eval=True, do_train=False))
    assert evaluated_base["eval_loss"] != pytest.approx(metrics["eval_loss"], rel=1e-6)

    # transformers loads the base that the adapter names
    model = AutoModelForSeq2SeqLM.from_pretrained(folder)
    loaded = {name.replace(".base_layer", ""): weight for name, weight in model.state_dict().items()}
    for name, weight in load_file(Path(bases[base]) / "model.safetensors").items():
        assert torch.equal(loaded[name], weight)


@pytest.mark.thorough
def test_an_adapter_is_trained_on(command, tmp_path, caplog):
    main(command("gdlf", *LORA))
    assert re.search(r"of which LoRA's \d+ are trained", caplog.text)
    main(command(str(tmp_path / "adapter"), "--learning_rate", "0.5", folder="further"))
    before = load_file(tmp_path / "adapter" / WEIGHTS)
    after = load_file(tmp_path / "further" / WEIGHTS)
    assert before.keys() == after.keys()
    assert any(not torch.equal(before[name], after[name]) for name in before)
    # the second adapter needs the base, not the first adapter
    shutil.rmtree(tmp_path / "adapter")
    metrics = main(command(str(tmp_path / "further"), folder="alone", do_train=False, do_eval=True))
    assert metrics["eval_loss"] > 0


@pytest.mark.thorough
def test_an_interrupted_training_of_an_adapter_goes_on(command, tmp_path):
    saving = {"save_strategy": "steps", "save_steps": 4}
    main(command("gdlf", *LORA, folder="whole", **saving))
    main(command("gdlf", *LORA, folder="parts", **saving))
    parts = tmp_path / "parts"
    # as if it had been killed after half of it
    shutil.rmtree(parts / "checkpoint-8")
    (parts / WEIGHTS).unlink()
    (parts / "train_results.json").unlink()
    main(command("gdlf", *LORA, folder="parts", **saving))
    resumed = load_file(parts / WEIGHTS)
    for name, weight in load_file(tmp_path / "whole" / WEIGHTS).items():
        assert torch.equal(resumed[name], weight)
    with pytest.raises(ValueError, match="lora_r 2, now 3"):
        main(command("gdlf", "--lora_r", "3", *LORA[2:], folder="parts", **saving))


@pytest.mark.thorough
@pytest.mark.parametrize("base", ["gdlf", "bart"])
def test_the_command_line_summarizes_with_an_adapter_and_its_settings(command, tmp_path, capsys, base):
    main(command(base, *LORA, "--max_new_tokens", "3", "--do_predict"))
    folder = tmp_path / "adapter"
    document_file = tmp_path / "news.txt"
    document_file.write_text(read_rows(tmp_path / "test.jsonl")[0]["document"])
    capsys.readouterr()
    assert hf_summ(["summarize", str(document_file), "--model", str(folder), "--device", "cpu"]) == 0
    predictions = (folder / "generated_predictions.txt").read_text().splitlines()
    assert capsys.readouterr().out.strip() == predictions[0].strip()


@pytest.mark.thorough
def test_the_card_names_the_model_that_is_adapted(command, tmp_path, bases):
    main(command("gdlf", *LORA))
    card = (tmp_path / "adapter" / "README.md").read_text()
    name = Path(bases["gdlf"]).name
    for part in ("library_name: peft", "base_model_relation: adapter", f"the weights of `{name}`", "its extra lora,"):
        assert part in card
    assert "GdlfForConditionalGeneration" in card
    assert "trust_remote_code=True" not in card


PUBLISH = """
import json, sys
from transformers import AutoModelForSeq2SeqLM, AutoProcessor, pipeline
from hf_summ.training import train
base, document, flags = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
for auto in (AutoModelForSeq2SeqLM, AutoProcessor):
    auto.from_pretrained(base).push_to_hub("tester/base")
train(model_name_or_path="tester/base", push_to_hub=True, hub_model_id="tester/adapter", **flags)
print("RESULT", pipeline("summarization", model=flags["output_dir"])(document))
"""
USE = """
import sys
from transformers import pipeline
import hf_summ
pipe = pipeline("summarization", model="tester/adapter")
assert pipe.model.config.prefix == "own: "
print("RESULT", pipe(sys.argv[1]))
"""


@pytest.mark.thorough
def test_an_adapter_on_the_hub_is_loaded_with_its_base_and_settings(local_hub, tmp_path, bases):
    corpus = tiny.write_corpus(tmp_path, train=4)
    run = {"output_dir": str(tmp_path / "out"), "do_train": True, "lora_r": 2, "learning_rate": 0.5, "max_steps": 2}
    run |= {"source_prefix": "own: ", "num_beams": 3, "max_new_tokens": 5, "use_cpu": True, "report_to": "none"}
    document = tiny.rows(1)[0]["document"]

    def result(program: str, *arguments: str, home: str, offline: str) -> str:
        """The only line of output that begins with RESULT."""
        environment = local_hub.environment(tmp_path / home) | {"HF_HUB_OFFLINE": offline}
        output, _ = run_python("-c", program, *arguments, cwd=tmp_path, **environment)
        (line,) = [line for line in output.splitlines() if line.startswith("RESULT")]
        return line

    expected = result(PUBLISH, bases["gdlf"], document, json.dumps(corpus | run), home="home", offline="0")
    assert result(USE, document, home="another", offline="0") == expected
    # what was downloaded needs no network
    assert result(USE, document, home="another", offline="1") == expected
    files = local_hub.files("tester/adapter")
    assert WEIGHTS in files
    assert "model.safetensors" not in files


CASES_OF_WRONG_FLAGS = [
    (["--lora_alpha", "8"], "--lora_alpha 8.0: needs --lora_r$"),
    (["--lora_r", "0"], "--lora_r 0: must be at least 1"),
    (["--lora_r", "2", "--lora_dropout", "1"], "--lora_dropout 1.0: must be at most"),
    (["--lora_r", "2", "--lora_target_modules", "nothing"], "Target modules .*nothing.* not found"),
    (
        ["--lora_r", "2", "--config_overrides", "dropout=0.5", "input_dropout=0.1"],
        "--config_overrides dropout=0.5 input_dropout=0.1: an adapter is saved without a configuration",
    ),
    (["--lora_r", "2", "--push_to_hub"], "--push_to_hub: an adapter of the local folder"),
]


@pytest.mark.parametrize(("flags", "message"), CASES_OF_WRONG_FLAGS)
def test_settings_that_cannot_work_are_refused(command, capsys, flags, message):
    assert run_recipe(command("gdlf", *flags)) == 2
    assert re.search(message, capsys.readouterr().err.splitlines()[-1])


def test_an_adapter_names_its_local_base_by_the_whole_path(command, tmp_path, bases, capsys, monkeypatch):
    base = Path(bases["gdlf"])
    monkeypatch.chdir(base.parent)
    adapted = tiny.build(command(base.name, "--lora_r", "2")).model
    assert adapted.active_peft_config.base_model_name_or_path == str(base)
    folder = tmp_path / "adapter"
    adapted.save_pretrained(folder)
    change_json(folder / "adapter_config.json", base_model_name_or_path=base.name)
    # training goes on with an adapter that names its base from here
    further = tiny.build(command(str(folder))).model
    assert further.active_peft_config.base_model_name_or_path == str(base)
    assert run_recipe(command(str(folder), "--push_to_hub")) == 2
    assert f"--push_to_hub: an adapter of the local folder {base}" in capsys.readouterr().err

    monkeypatch.chdir(tmp_path)
    message = f"{folder}: its adapter_config.json names the base {base.name}, which is not a folder"
    assert run_recipe(command(str(folder), folder="other")) == 2
    assert message in capsys.readouterr().err
    for load in (AutoModelForSummarization.from_pretrained, load_pipeline, partial(model_identity, revision=None)):
        with pytest.raises(ValueError, match=f"^{message}"):
            load(str(folder))


def test_settings_of_an_adapted_model_are_restored(bases, tmp_path):
    model = AutoModelForSeq2SeqLM.from_pretrained(bases["gdlf"])
    model.config.epochs_trained = 4
    model.config.prefix = "tldr: "
    save_settings(model, tmp_path)
    config = AutoConfig.from_pretrained(bases["gdlf"])
    config.epochs_trained = 3
    config.extraction = {"extract_share": 0.5}
    base = ModelArguments(model_name_or_path=bases["gdlf"])
    Adapter(ModelArguments(model_name_or_path=str(tmp_path)), base).restore_settings(config)
    assert config.epochs_trained == 4
    assert config.prefix == "tldr: "
    assert not hasattr(config, "extraction")


def test_a_new_model_has_nothing_to_adapt(settings, capsys):
    assert run_recipe([settings(), "--lora_r", "2"]) == 2
    assert "a new model has nothing to adapt" in capsys.readouterr().err


def test_a_tokenizer_with_more_tokens_is_refused(command, tmp_path, bases, tiny_tokenizer, capsys):
    larger = tmp_path / "larger"
    shutil.copytree(bases["bart"], larger)
    path = larger / "tokenizer.json"
    content = json.loads(path.read_text())
    added_token = {**content["added_tokens"][0], "id": len(tiny_tokenizer), "content": "<more>"}
    content["added_tokens"].append(added_token)
    path.write_text(json.dumps(content))
    assert run_recipe(command(str(larger), "--lora_r", "2")) == 2
    assert "an adapter cannot contain new embeddings" in capsys.readouterr().err


@pytest.mark.thorough
def test_adapters_that_cannot_be_used_are_refused(command, tmp_path, capsys, bases):
    main(command("gdlf", *LORA))
    good = tmp_path / "adapter"

    def error(*flags: str, start: Path) -> str:
        """The last line of messages of a run that is refused."""
        capsys.readouterr()
        assert run_recipe(command(str(start), *flags, folder="other")) == 2
        return capsys.readouterr().err.splitlines()[-1]

    assert "is an adapter already" in error("--lora_r", "4", start=good)
    assert "would be lost" in error("--config_overrides", "dropout=0.5", start=good)

    broken = tmp_path / "broken"
    shutil.copytree(good, broken)
    config = json.loads((broken / "adapter_config.json").read_text())
    wrong_contents = [
        ("{", "adapter_config.json cannot be read"),
        (json.dumps({**config, "base_model_name_or_path": None}), "names no base_model_name_or_path"),
        (json.dumps({**config, "r": 5}), f"{broken}: this adapter does not fit {bases['gdlf']}"),
    ]
    for content, message in wrong_contents:
        (broken / "adapter_config.json").write_text(content)
        assert message in error(start=broken)
    shutil.copy(good / "adapter_config.json", broken)
    tiny.cut(broken / WEIGHTS)
    assert "does not fit" in error(start=broken)
    (broken / WEIGHTS).unlink()
    assert f"{broken}: it has no {WEIGHTS}" in error(start=broken)
    # a pickle of which torch would run code
    torch.save({"name": re.compile("a")}, broken / "adapter_model.bin")
    assert f"{broken}: it cannot be read as weights only" in error(start=broken)
    weights = load_file(good / WEIGHTS)
    renamed_weights = {f"module.{name}": weight for name, weight in weights.items()}
    half_of_weights = dict(list(weights.items())[::2])
    for wrong_weights in ({}, renamed_weights, half_of_weights):
        save_file(wrong_weights, broken / WEIGHTS)
        assert "does not fit" in error(start=broken)
        with pytest.raises(UnusableAdapterError, match="does not fit"):
            pipeline("summarization", model=str(broken))


@pytest.mark.thorough
def test_a_pickle_with_more_than_weights_is_refused_in_a_line(command, tmp_path, capsys, bases):
    folder = tmp_path / "pickled"
    shutil.copytree(bases["gdlf"], folder)
    (folder / "model.safetensors").unlink()
    torch.save({"name": re.compile("a")}, folder / "pytorch_model.bin")
    assert run_recipe(command(str(folder))) == 2
    last_line = capsys.readouterr().err.splitlines()[-1]
    assert f"--model_name_or_path {folder}: it cannot be read as weights only: " in last_line


@pytest.mark.thorough
def test_without_peft_it_is_said_what_to_install(command, tmp_path):
    code = "import sys; sys.modules['peft'] = None; from hf_summ.training.__main__ import main as run_recipe; "
    arguments = command("gdlf", "--lora_r", "2")
    _, errors = run_python("-c", f"{code} sys.exit(run_recipe({arguments!r}))", status=2)
    assert "--lora_r 2: needs PEFT: pip install 'hf-summ[lora]'" in errors
