"""The model card of a run: its whole text, its code, its metadata, and what the Hub reads of it."""

import contextlib
import io
import json
import re
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from huggingface_hub import ModelCard
from transformers import TrainerState

from hf_summ.evaluation.measures import Settings
from hf_summ.training.folder.ledger import Ledger
from hf_summ.training.parsing import parse_arguments
from hf_summ.training.results.card_results import Results
from hf_summ.training.results.cards import _facts
from hf_summ.training.results.privacy import hide_paths, public
from hf_summ.training.run import main, run
from tests.conftest import run_python
from tests.training import tiny

POINTS = r"\d+\.\d\d"
INTERVAL = rf"{POINTS} \[{POINTS}, {POINTS}\]"
READING = r"stemming: Porter \(NLTK's\); sentences by sentencex [\d.]+"
ROUGE_ROW = rf" +\| +{INTERVAL} \| +{INTERVAL} \|"
# the whole card of the run of the first test
CARD = rf"""---
library_name: transformers
license: mit
metrics:
- rouge
- perplexity
pipeline_tag: summarization
tags:
- hf_summ
- gdlf
model-index:
- name: out
  results:
  - task:
      type: summarization
    dataset:
      name: test\.jsonl
      type: unknown
      split: test
    metrics:
(    - type: rouge
      value: \d+\.\d+
      name: ROUGE-(1|2|L|Lsum)
){{4}}    - type: perplexity
      value: \d+\.\d+
      name: Perplexity
---

# out

This model was trained on `train\.jsonl`\.

It is a `GdlfForConditionalGeneration` \(`model_type: gdlf`\) with \d+,\d{{3}} parameters\. It reads at most
48 tokens of a document\. Its decoding settings are in `generation_config\.json`\.

## Use

With hf_summ, which provides the pipeline:

```python
import hf_summ
from transformers import pipeline

document = "Put here a document like those of the training data"
summarizer = pipeline\("summarization", model="out"\)
print\(summarizer\(document\)\[0\]\["summary_text"\]\)
```

Without hf_summ\. `trust_remote_code=True` runs the code in this folder, so read that first:

```python
from transformers import pipeline

document = "Put here a document like those of the training data"
summarizer = pipeline\("summarization", model="out", trust_remote_code=True\)
print\(summarizer\(document\)\[0\]\["summary_text"\]\)
```

## Intended use and limits

The model is intended for documents like its training data, in the same language\. (.+\n){{3}}
## Results

### Test: all 7 documents

\| Score +\| +This model \| +LEAD-1 \|
\| -+ \| -+: \| -+: \|
\| ROUGE-1{ROUGE_ROW}
\| ROUGE-2{ROUGE_ROW}
\| ROUGE-L{ROUGE_ROW}
\| ROUGE-Lsum{ROUGE_ROW}
\| Support, %{ROUGE_ROW}
\| Perplexity +\| +{POINTS} \| +- \|

ROUGE is F in points, computed like Google's rouge-score \(`--rouge_mode rouge_score`; {READING}\)\.
In brackets are 95% intervals of the mean over documents, from 1,000 bootstrap resamples\.
LEAD-1 is the first sentence of each document\.
Support is the mean of two shares: [^\n]+ of the document\. It is not a fact check\.
Perplexity is per token of the references, so it depends on the vocabulary\.

## Training

- train documents: 24
- test documents: 7
- updates: 120 \(10\.00 epochs\)
- devices: 1 × cpu
- precision: float32

The settings, for `hf-summ train`:

```yaml
cache_dir: cache
config_overrides:
  attention_dropout: 0\.0
(  \w+: \S+
)*  dropout: 0\.01
(  \w+: \S+
)*  label_smoothing: 0\.05
(  \w+: \S+
|\w+: \S+
)*license: mit
(\w+: \S+
)*seed: 7
(\w+: \S+
)*train_file: train\.jsonl
(\w+: \S+
)*```

## Versions

- hf_summ \d\S+
- transformers \d\S+
- torch \d\S+
- datasets \d\S+
- tokenizers \d\S+
"""


def card_of(folder: Path) -> str:
    return (folder / "README.md").read_text(encoding="utf-8")


def python_blocks(card: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", card, flags=re.MULTILINE | re.DOTALL)


@pytest.fixture
def trained(settings, tmp_path) -> Path:
    """The folder of a short run, long enough for a summary that is not empty."""
    main([settings(do_predict=True, lead_sentences=1, max_predict_samples=6, max_steps=60, seed=7)])
    return tmp_path / "out"


@pytest.mark.thorough
def test_whole_card(settings, tmp_path):
    # as many updates and tokens as it takes for summaries that share words with the references
    learning = {"max_steps": 120, "max_new_tokens": 16, "token": "hf_in_the_file"}
    path = settings(do_predict=True, lead_sentences=1, **learning)
    secrets = ["--hub_token=hf_first", "--token", "hf_second", "--hub-token", "hf_third"]
    overrides = ["--config_overrides", "dropout=0.01", "--config_overrides", "label_smoothing=0.05"]
    metrics = main([path, *secrets, "--seed=6", "--seed", "7", *overrides, "--license=mit"])
    card = card_of(tmp_path / "out")
    assert re.fullmatch(CARD, card), card
    assert str(tmp_path) not in card
    assert "hf_" not in card.replace("hf_summ", "")
    # the settings are a configuration
    given = tmp_path / "given.yaml"
    given.write_text(re.search(r"```yaml\n(.*?)```", card, re.DOTALL)[1], encoding="utf-8")
    again = parse_arguments([str(given), "--output_dir", str(tmp_path / "again")])
    assert (again.training.seed, again.model.config_overrides["label_smoothing"]) == (7, 0.05)
    # the scores of the card are those of the run
    indexed = {entry.metric_name: entry.metric_value for entry in ModelCard(card).data.eval_results}
    assert indexed["ROUGE-2"] == metrics["predict_rouge2"] > 0
    low, high = (metrics[f"predict_lead1_rouge2_{end}"] for end in ("low", "high"))
    assert low <= metrics["predict_lead1_rouge2"] <= high
    assert f" {metrics['predict_lead1_rouge2']:.2f} [{low:.2f}, {high:.2f}] |" in card


@pytest.mark.thorough
def test_code_of_the_card_runs(trained, monkeypatch):
    monkeypatch.chdir(trained.parent)
    installed, alone = python_blocks(card_of(trained))
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(installed, {})
    summary = output.getvalue()
    assert summary.strip()
    # as if the package were not there
    assert run_python("-c", f"import sys\nsys.modules['hf_summ'] = None\n{alone}")[0] == summary


def test_settings_have_no_local_folders(tmp_path):
    files = {"train_file": "/data/a-1.jsonl,/data/a-2.jsonl", "metrics": ["rouge", "bertscore=/models/b", "nli=org/n"]}
    shown = {"train_file": "a-1.jsonl,a-2.jsonl", "metrics": ["rouge", "bertscore=b", "nli=org/n"]}
    assert public(files) == shown
    assert public({"a": 1, "b": {"c": "/x=1/y"}, "d": "and/or, so"}) == {"a": 1, "b": {"c": "y"}, "d": "and/or, so"}
    file = tmp_path / "config.json"
    file.write_text(json.dumps({"start_name": "/models/bart"}), "utf-8")
    hide_paths(tmp_path)
    assert json.loads(file.read_text("utf-8")) == {"start_name": "bart"}


@pytest.mark.thorough
def test_scores_of_a_part_of_a_split_are_not_indexed(trained):
    card = card_of(trained)
    assert "### Test: the first 6 documents" in card
    assert ModelCard(card).data.eval_results is None


@pytest.mark.thorough
def test_license_is_not_invented(trained):
    assert ModelCard(card_of(trained)).data.license is None


@pytest.mark.thorough
def test_fine_tuned_model_and_one_without_evaluation(settings, trained, tmp_path):
    path = settings(config_overrides=None, model_type=None, model_name_or_path=str(trained))
    flags = "--language de --max_train_samples 9 --min_coverage 0.01".split()
    main([path, "--output_dir", str(tmp_path / "tuned"), *flags])
    card = card_of(tmp_path / "tuned")
    assert "This model was trained on `train.jsonl`, starting from the weights of `out`. It summarizes" in card
    assert "\n- train documents: 9\n" in card
    assert "\nmin_coverage: 0.01\n" in card
    assert "\n## Results\n\nThe training run did not evaluate this model.\n\n## Training\n" in card
    data = ModelCard(card).data
    assert (data.language, data.base_model, data.eval_results) == ("de", None, None)


@pytest.mark.thorough
def test_model_of_transformers_needs_no_code_of_the_folder(settings, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sizes = {"d_model": 16, "encoder_layers": 1, "decoder_layers": 1, "max_position_embeddings": 64}
    path = settings(model_type="bart", config_overrides=sizes, max_source_length=48, source_prefix="summarize: ")
    main([path, "--schedule", "noam", "--optimizer", "adadelta", "--bf16", "--weight_decay", "0.1"])
    card = card_of(tmp_path / "out")
    assert "trust_remote_code" not in card
    assert "\nsource_prefix: 'summarize: '\n" in card
    installed, alone = python_blocks(card)
    output = io.StringIO()
    names = {}
    with contextlib.redirect_stdout(output):
        exec(installed, {})
        exec(alone, names)
    read = names["tokenizer"].decode(names["inputs"]["input_ids"][0], skip_special_tokens=True)
    assert read == f"summarize: {names['document']}"
    for line in ("- precision: float32, with bf16 autocast", "optimizer: adadelta", "weight_decay: 0.1"):
        assert f"\n{line}\n" in card
    # the flag's schedule leaves the file's rate without effect
    assert "\nlearning_rate:" not in card


@pytest.mark.thorough
def test_best_weights_are_named(settings, tmp_path):
    flags = {"eval_strategy": "steps", "eval_steps": 4, "save_strategy": "steps", "save_steps": 4, "do_eval": True}
    path = settings(**flags, load_best_model_at_end=True, schedule_period=3, train_tokens_per_batch=None)
    main([path, "--optimizer", "adamw", "--learning_rates", "shared=0.001", "--rouge_mode", "rouge155"])
    card = card_of(tmp_path / "out")
    assert re.search(r"^- weights: those after update [48], the best by rouge2 \(", card, flags=re.MULTILINE)
    for line in ("optimizer: adamw", "learning_rates: [shared=0.001]", "schedule_period: 3"):
        assert f"\n{line}\n" in card
    assert "### Validation: all 5 documents" in card
    assert "computed like the Perl script ROUGE-1.5.5 (`--rouge_mode rouge155`; stemming: Porter and WordNet's" in card
    assert "| ROUGE-SU*" in card
    assert "LEAD" not in card


# the best checkpoint, the update with the best score, and what the card says of the weights
CASES_OF_WEIGHTS = [
    ("/runs/out/checkpoint-4", 4, "those after update 4, the best by rouge2 (21.5)"),
    # the best checkpoint was removed, so the last weights are kept
    (None, 4, None),
    # the best score was between two checkpoints
    ("checkpoint-4", 6, "those after update 4"),
]


@pytest.mark.parametrize(("checkpoint", "best_step", "weights"), CASES_OF_WEIGHTS)
def test_card_has_the_update_of_the_weights(checkpoint, best_step, weights):
    state = TrainerState(best_model_checkpoint=checkpoint, best_global_step=best_step, best_metric=21.5, global_step=8)
    args = SimpleNamespace(load_best_model_at_end=True, metric_for_best_model="rouge2")
    accelerator = SimpleNamespace(device=torch.device("cpu"), num_processes=1, mixed_precision="no")
    model = torch.nn.Linear(1, 1)
    model.dtype = torch.float32
    trainer = SimpleNamespace(args=args, state=state, accelerator=accelerator, model=model)
    assert _facts(trainer, {}).get("weights") == weights


@pytest.fixture
def dataset_folder(tmp_path) -> Path:
    """A data set as it is on the Hub."""
    folder = tmp_path / "news"
    folder.mkdir()
    tiny.write_corpus(folder, train=24, validation=5, test=7)
    return folder


NO_FILES = dict.fromkeys(("train_file", "validation_file", "test_file"))


@pytest.mark.thorough
def test_hub_gets_scores_of_a_hub_data_set(settings, trained, dataset_folder, tmp_path, local_hub):
    started = {"model_name_or_path": "org/base", "model_type": None, "config_overrides": None}
    path = settings(**NO_FILES, **started, dataset_name="org/news", do_predict=True, lead_sentences=1)
    flags = "--push_to_hub --hub_model_id tester/bridges --license cc-by-4.0".split()
    whole = [path, "--output_dir", str(tmp_path / "whole"), *flags]
    part = [path, "--max_predict_samples", "3", "--output_dir", str(tmp_path / "part")]
    local_hub.publish("org/news", dataset_folder, kind="dataset")
    local_hub.publish("org/base", trained)
    program = f"from hf_summ.training.run import main\nfor argv in {[whole, part]!r}:\n    main(argv)"
    run_python("-c", program, **local_hub.environment(tmp_path / "home"))
    pushed = local_hub.files("tester/bridges")
    card = pushed["README.md"].decode()
    data = ModelCard(card).data
    assert (data.datasets, data.base_model, data.license) == (["org/news"], ["org/base"], "cc-by-4.0")
    assert {(entry.dataset_type, entry.dataset_split) for entry in data.eval_results} == {("org/news", "test")}
    base, news = "[org/base](https://huggingface.co/org/base)", "[org/news](https://huggingface.co/datasets/org/news)"
    assert f"This model was trained on {news}, starting from the weights of {base}." in card
    assert 'model="tester/bridges")' in card
    assert "\n# bridges\n" in card
    indexed = {entry.metric_name: entry.metric_value for entry in data.eval_results}
    assert indexed["ROUGE-2"] == json.loads(pushed["predict_results.json"])["predict_rouge2"]
    # the scores of a part of the documents do not stand beside others' scores of all
    assert "### Test: the first 3 documents" in card_of(tmp_path / "part")
    assert ModelCard(card_of(tmp_path / "part")).data.eval_results is None


@pytest.mark.thorough
def test_data_set_in_a_folder_is_not_one_of_the_hub(settings, dataset_folder, tmp_path):
    arguments = parse_arguments([settings(**NO_FILES, dataset_name=str(dataset_folder), do_predict=True)])
    run(arguments)
    card = card_of(tmp_path / "out")
    assert "This model was trained on `news`." in card
    data = ModelCard(card).data
    assert data.datasets is None
    assert {(entry.dataset_type, entry.dataset_name) for entry in data.eval_results} == {("unknown", "news")}


def test_scores_that_the_hub_must_not_get():
    scores = {"rouge1": 50.0, "novel1": 3.0, "bleu": float("nan"), "samples": 2}
    results = Results("test", 2, scores, ["rouge1", "bleu", "novel1"], Settings(rouge_mode="rouge_score"))
    assert [entry.metric_name for entry in results.as_model_index("org/news", "org/news", "small")] == ["ROUGE-1"]
    assert results.as_markdown().splitlines()[-3:] == [
        "| ROUGE-1          |      50.00 |",
        "| BLEU             |          - |",
        "| Novel 1-grams, % |       3.00 |",
    ]


@pytest.mark.thorough
def test_card_of_a_fine_tuned_bundled_model_has_no_link_to_the_hub(settings, shipped, tmp_path):
    start = {"model_name_or_path": "arxiv-tldr", "tokenizer_name": None, "model_type": None, "config_overrides": None}
    main([settings(**start, max_steps=1)])
    card = card_of(tmp_path / "out")
    assert "This model was trained on `train.jsonl`, starting from the weights of `arxiv-tldr`." in card
    assert ModelCard(card).data.base_model is None
    # where the package is may change until the run resumes
    assert Ledger(tmp_path / "out").steps["train"]["settings"]["model_name_or_path"] == "arxiv-tldr"
