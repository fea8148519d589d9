"""What people give to the recipe, and what it makes of a tokenizer and a checkpoint."""

import copy
import json
import logging
import string
from dataclasses import replace
from pathlib import Path

import datasets
import numpy as np
import pytest
import torch
import yaml
from transformers import (
    AutoModelForSeq2SeqLM,
    GenerationConfig,
    MBart50Tokenizer,
    MBartTokenizer,
    NllbTokenizer,
    pipeline,
)
from transformers.trainer_utils import SchedulerType

from hf_summ import SagCopyProcessor
from hf_summ.data import Corpus, fit_vocabulary, load
from hf_summ.models.text_candidates import sentence_candidates
from hf_summ.models.text_processing_highlight_transformer import read_phrases
from hf_summ.training import train
from hf_summ.training.__main__ import main as run_recipe
from hf_summ.training.folder.ledger import Ledger
from hf_summ.training.parsing import as_flag, parse_arguments
from tests.conftest import save
from tests.data.files import change_json, json_lines, read_rows, write
from tests.models.architectures import COPY_TRANSFORMER_BERT, DRGD, GDLF, POINTER_GENERATOR, build_with_processor
from tests.reports.tiny_models import foreign, nested
from tests.training import tiny

FAMILIES = """bart bigbird_pegasus blenderbot blenderbot-small fsmt led longt5 marian mbart mt5 mvp nllb-moe pegasus
pegasus_x plbart prophetnet switch_transformers t5 umt5 encoder-decoder seamless_m4t t5gemma""".split()
CASES_OF_FAMILIES = [pytest.param(name, marks=pytest.mark.thorough) for name in FAMILIES] + ["m2m_100"]


@pytest.fixture
def corpus(tmp_path) -> dict[str, str]:
    return tiny.write_corpus(tmp_path, train=8, validation=3, test=3)


@pytest.fixture
def recipe(tmp_path, corpus):
    """A function that trains a checkpoint for one update, and returns the metrics."""

    def run(model: str, out: str = "out", **settings) -> dict[str, float]:
        defaults = {"do_train": True, "max_steps": 1, "use_cpu": True, "report_to": "none", "disable_tqdm": True}
        settings = {**defaults, **corpus, **settings}
        return train(model_name_or_path=model, output_dir=str(tmp_path / out), **settings)

    return run


# huggingface/transformers#22553: families that compute the decoder's inputs only in `forward`
@pytest.mark.parametrize("family", CASES_OF_FAMILIES)
def test_every_family_is_trained_and_evaluated(recipe, tiny_tokenizer, tmp_path, family):
    small = {"max_source_length": 32, "max_target_length": 16, "max_new_tokens": 4}
    if family == "encoder-decoder":
        model = nested(tiny_tokenizer, 64)
    else:
        model = foreign(family, tiny_tokenizer, attention_window=16)
    metrics = recipe(save(tmp_path / "model", model, tiny_tokenizer), **small, do_eval=True)
    assert metrics["train_loss"] > 0
    assert "eval_rouge1" in metrics


# `--lang` of transformers' example: otherwise texts of any language are read and written with the token of English
# the tokenizer, flags, and the languages of documents and summaries
CASES_OF_LANGUAGES = [
    (MBart50Tokenizer, {}, ("en_XX", "en_XX")),
    (MBart50Tokenizer, {"lang": "ro_RO"}, ("ro_RO", "ro_RO")),
    (MBart50Tokenizer, {"lang": "ro_RO", "target_lang": "de_DE"}, ("ro_RO", "de_DE")),
    (MBartTokenizer, {"lang": "ro_RO"}, ("ro_RO", "ro_RO")),
    (NllbTokenizer, {"lang": "ron_Latn"}, ("ron_Latn", "ron_Latn")),
]


@pytest.mark.thorough
@pytest.mark.parametrize(("tokenizer_class", "flags", "languages"), CASES_OF_LANGUAGES, ids=str)
def test_texts_have_the_tokens_of_their_languages(recipe, tmp_path, caplog, tokenizer_class, flags, languages):
    pieces = ["<s>", "<pad>", "</s>", "<unk>", "\u2581", *string.ascii_letters]
    if tokenizer_class is NllbTokenizer:
        tokenizer = tokenizer_class(vocab={piece: number for number, piece in enumerate(pieces)})
        model = foreign("m2m_100", tokenizer)
    else:
        tokenizer = tokenizer_class(vocab=[(piece, -float(number)) for number, piece in enumerate(pieces)])
        model = foreign("mbart", tokenizer)
    recipe(save(tmp_path / "model", model, tokenizer), do_eval=True, max_new_tokens=3, **flags)
    is_noted = "documents are read as en_XX" in caplog.text
    assert is_noted == (flags == {})
    pipe = pipeline("summarization", model=str(tmp_path / "out"))
    source, target = pipe.tokenizer.convert_tokens_to_ids(list(languages))
    assert source in pipe.read("a b").inputs["input_ids"]
    assert target in pipe.tokenizer(text_target="a b")["input_ids"]
    (record,) = pipe("a b", return_tensors=True)
    # the target's token is the first of mBART's summaries, and the second of the others'
    position = 0 if tokenizer_class is MBartTokenizer else 1
    assert record["summary_token_ids"].tolist().index(target) == position
    for wrong, hint in (("ro", "has no such language"), (languages[0].lower(), f"did you mean {languages[0]}")):
        with pytest.raises(ValueError, match=f"--target_lang {wrong}: the tokenizer .*{hint}"):
            recipe(str(tmp_path / "out"), "wrong", target_lang=wrong)


def test_a_language_needs_a_tokenizer_with_languages(recipe, tiny_tokenizer, tmp_path):
    model = save(tmp_path / "model", foreign("bart", tiny_tokenizer), tiny_tokenizer)
    with pytest.raises(ValueError, match="--lang ro_RO: the tokenizer of bart has no languages"):
        recipe(model, lang="ro_RO")


@pytest.mark.thorough
def test_lengths_fit_the_positions_of_both_sides(recipe, tiny_tokenizer, tmp_path):
    model = save(tmp_path / "model", nested(tiny_tokenizer, 34), tiny_tokenizer)
    assert recipe(model, do_eval=True)["eval_loss"] > 0
    with pytest.raises(ValueError, match="--max_target_length 33: encoder-decoder has positions for 32"):
        recipe(model, "longer", max_target_length=33)


def test_the_sides_of_a_tokenizer_do_not_matter(recipe, tiny_tokenizer, tmp_path):
    losses = []
    for side in ("right", "left"):
        tokenizer = copy.deepcopy(tiny_tokenizer)
        tokenizer.padding_side = tokenizer.truncation_side = side
        torch.manual_seed(0)
        model = save(tmp_path / side, foreign("bart", tiny_tokenizer), tokenizer)
        settings = {"do_train": False, "do_eval": True, "max_source_length": 16}
        losses.append(recipe(model, f"out_{side}", **settings, seed=1)["eval_loss"])
    assert losses[0] == losses[1]


@pytest.mark.thorough
def test_a_model_without_first_token_is_refused_at_the_start(recipe, tiny_tokenizer, tmp_path):
    model = nested(tiny_tokenizer, 64, decoder_start_token_id=None)
    name = save(tmp_path / "model", model, tiny_tokenizer)
    with pytest.raises(ValueError, match="no `decoder_start_token_id`, the token with which summaries begin: give"):
        recipe(name)
    assert recipe(name, config_overrides={"decoder_start_token_id": 1}, do_eval=True)["eval_loss"] > 0


# as of scripts that set the token in the model's configuration, which generate() of transformers 5 does not read
@pytest.mark.parametrize("family", ["bart", pytest.param("t5", marks=pytest.mark.thorough)])
def test_summaries_begin_in_decoding_as_in_training(recipe, tiny_tokenizer, tmp_path, caplog, family):
    model = foreign(family, tiny_tokenizer)
    model.config.decoder_start_token_id = 7
    name = save(tmp_path / "model", model, tiny_tokenizer)
    recipe(name)
    assert "the token 7 of config.json" in caplog.text
    recipe(name, "other", config_overrides={"decoder_start_token_id": 8})
    for folder, token in (("out", 7), ("other", 8)):
        assert GenerationConfig.from_pretrained(tmp_path / folder).decoder_start_token_id == token


@pytest.mark.parametrize("name", ["sagcopy", "nope"])
def test_an_architecture_beside_a_checkpoint_of_another_is_refused(recipe, tiny_tokenizer, tmp_path, name):
    model = save(tmp_path / "model", foreign("bart", tiny_tokenizer), tiny_tokenizer)
    hint = f", or start it with --config_overrides start_name={model}" if name == "sagcopy" else ""
    with pytest.raises(ValueError, match=f"--model_type {name}: {model} is a bart: omit either{hint}$"):
        recipe(model, model_type=name)


@pytest.mark.thorough
def test_a_checkpoint_with_several_summaries_is_evaluated_with_one(recipe, tiny_tokenizer, tmp_path):
    model = foreign("bart", tiny_tokenizer)
    several = {"num_beams": 3, "num_return_sequences": 3, "return_dict_in_generate": True, "max_new_tokens": 4}
    vars(model.generation_config).update(several)
    metrics = recipe(save(tmp_path / "model", model, tiny_tokenizer), do_eval=True, do_predict=True)
    assert {"eval_rouge1", "predict_rouge1"} <= metrics.keys()
    assert GenerationConfig.from_pretrained(tmp_path / "out").num_return_sequences == 3


@pytest.mark.parametrize(
    "kind",
    [
        "words",
        pytest.param("several documents", marks=pytest.mark.thorough),
        "lower case",
        pytest.param("bart", marks=pytest.mark.thorough),
    ],
)
def test_the_recipe_chooses_the_sentences_that_the_pipeline_chooses(recipe, corpus, tiny_tokenizer, tmp_path, kind):
    documents = [row["document"] for row in read_rows(Path(corpus["test_file"]))]
    shared = {"source_prefix": "tldr: ", "max_new_tokens": 40}
    if kind == "bart":
        model, processor = foreign("bart", tiny_tokenizer), tiny_tokenizer
        # the recipe has no flag for it, and transformers would rebuild the settings on loading, without unknown ones
        model.generation_config.whole_sentences = True
        model.generation_config._from_model_config = False
    else:
        settings = {"vocab_size": 300, "lowercase": True} if kind == "lower case" else {"units": "words"}
        # words that only one document has are unknown
        tokenizer = fit_vocabulary(documents[:1] * 2, show_progress=False, **settings)
        model, processor = build_with_processor(POINTER_GENERATOR, tokenizer)
        shared["whole_sentences"] = True
    files = {}
    if kind == "several documents":
        # in one document, the two sentences would be a pair, with the highest merit
        documents = [["We propose a rank for sand.", "We show that the rank is fair."]]
        rows = [{"documents": documents[0], "summary": documents[0][0]}]
        files = {"test_file": write(tmp_path / "several.jsonl", json_lines(rows))}
    folder = save(tmp_path / "model", model, processor)
    scores = recipe(folder, do_train=False, do_eval=True, do_predict=True, bf16=False, **shared, **files)
    predictions = [row["prediction"] for row in read_rows(tmp_path / "out" / "predictions.jsonl")]
    summarizer = pipeline("summarization", model=folder)
    assert predictions == [record["summary_text"] for record in summarizer(documents, **shared)]
    for document, prediction in zip(documents, predictions, strict=True):
        assert prediction in sentence_candidates(document)
    assert scores["predict_rouge1"] > 0


# huggingface/transformers#29665, #29988: saving fails after training
def test_a_checkpoint_may_set_a_temperature_without_sampling(recipe, tiny_tokenizer, tmp_path):
    model = save(tmp_path / "model", foreign("bart", tiny_tokenizer), tiny_tokenizer)
    change_json(tmp_path / "model" / "generation_config.json", temperature=0.5, top_p=0.6, num_beams=2)
    assert recipe(model)["train_loss"] > 0
    saved = GenerationConfig.from_pretrained(tmp_path / "out")
    assert (saved.temperature, saved.top_p, saved.num_beams) == (None, None, 2)


# huggingface/transformers#10032, #12029: the length of summaries that are evaluated
def test_the_trainers_limit_of_summaries_takes_effect(recipe, tiny_tokenizer, tmp_path):
    model = save(tmp_path / "model", foreign("bart", tiny_tokenizer), tiny_tokenizer)
    metrics = recipe(model, do_eval=True, generation_max_length=6, min_new_tokens=3)
    assert 3 <= metrics["eval_gen_len"] <= 6


# rows of the Hub that do not fit on the disk
def test_training_rows_are_streamed(recipe, tiny_tokenizer, tmp_path, caplog):
    caplog.set_level("INFO")
    folder = tmp_path / "data"
    folder.mkdir()
    tiny.write_corpus(folder, train=8, validation=3)
    with (folder / "train.jsonl").open("a") as file:
        file.write(json.dumps({"id": "9", "document": " ", "summary": "blank"}) + "\n")
    streamed = {"dataset_name": str(folder), "streaming": True, "per_device_train_batch_size": 4}
    streamed |= {"train_file": None, "validation_file": None, "test_file": None}
    bart = save(tmp_path / "model", foreign("bart", tiny_tokenizer), tiny_tokenizer)
    metrics = recipe(bart, **streamed, max_steps=5, do_eval=True)
    assert (metrics["train_samples"], metrics["eval_samples"]) == (20, 3)
    model, processor = build_with_processor(GDLF, tiny_tokenizer)
    assert recipe(save(tmp_path / "gdlf", model, processor), "own", **streamed, max_steps=1)["train_loss"] > 0
    assert f"{folder}, train: documents from 'document', summaries from 'summary'" in caplog.text
    metrics = recipe(bart, "files", streaming=True, max_steps=2)
    assert metrics["train_samples"] == 16
    assert yaml.safe_load((tmp_path / "files" / "run.yaml").read_text())["train"]["data"]["train"]["streaming"]
    with pytest.raises(ValueError, match="--streaming: needs --max_steps"):
        recipe(bart, "endless", **streamed, max_steps=None)
    with pytest.raises(ValueError, match="--train_sampling_strategy sequential: has no effect beside --streaming"):
        recipe(bart, "sorted", streaming=True, train_sampling_strategy="sequential")
    with pytest.raises(
        ValueError, match="--streaming: cannot be combined with --train_tokens_per_batch, which reads all"
    ):
        recipe(bart, "packed", **{**streamed, "per_device_train_batch_size": None}, train_tokens_per_batch=100)


@pytest.mark.parametrize("form", ["jsonl", "json", "csv", "parquet", "folder", "hub"])
def test_a_stream_has_the_rows_of_the_file(tmp_path, form):
    rows = tiny.rows(130)
    if form != "csv":
        rows = [{**row, "phrases": {"news": 1.5}} for row in rows]
    data = datasets.Dataset.from_list(rows)
    folder = tmp_path / "corpus"
    folder.mkdir()
    path = folder / f"train.{form}"
    if form == "folder":
        data.save_to_disk(str(path))
    elif form == "csv":
        data.to_csv(str(path))
    elif form == "parquet":
        data.to_parquet(str(path))
    else:
        path = folder / ("train.json" if form == "json" else "train.jsonl")
        data.to_json(str(path))
    name = {"dataset_name": str(folder)} if form == "hub" else {"train_file": str(path)}
    streamed = load(Corpus(**name, streaming=True), str(tmp_path))["train"]
    stored = load(Corpus(**name), str(tmp_path))["train"]
    for row, stored_row in zip(streamed, stored, strict=True):
        assert (row["document"], row["summary"]) == (stored_row["document"], stored_row["summary"])
        assert read_phrases(row.get("phrases")) == read_phrases(stored_row.get("phrases"))


# huggingface/transformers#22831: TypeError of the first checkpoint
def test_a_generation_config_is_refused_at_the_start(corpus, capsys):
    flags = [f"--{name}={value}" for name, value in corpus.items()]
    assert run_recipe(["--model_type", "bart", "--do_train", *flags, "--generation_config", "folder"]) == 2
    assert "--generation_config folder: has no effect here: give its settings as flags" in capsys.readouterr().err


CASES_OF_REFUSED_SETTINGS = [
    ({"lr_scheduler_type": "cosine_with_min_lr"}, "--lr_scheduler_type cosine_with_min_lr: One of min_lr or"),
    ({"lr_scheduler_kwargs": {"a": 1}}, "--lr_scheduler_type linear: .* unexpected keyword argument 'a'; see --lr"),
    ({"optim": "lomo"}, "You need to install `lomo_optim`"),
    ({"dataloader_multiprocessing_context": "spawn"}, "multiprocessing_context spawn: needs --dataloader_num"),
]


@pytest.mark.thorough
@pytest.mark.parametrize(("settings", "message"), CASES_OF_REFUSED_SETTINGS, ids=str)
def test_flags_that_end_training_are_refused_before_the_corpus_is_prepared(
    recipe, tiny_tokenizer, tmp_path, settings, message
):
    model = save(tmp_path / "model", foreign("bart", tiny_tokenizer), tiny_tokenizer)
    with pytest.raises((ValueError, ImportError), match=message):
        recipe(model, **settings)
    assert not (tmp_path / "out" / "run.yaml").exists()


def test_a_run_without_an_update_saves_no_model(recipe, tiny_tokenizer, tmp_path):
    model = save(tmp_path / "model", foreign("bart", tiny_tokenizer), tiny_tokenizer)
    with pytest.raises(ValueError, match="no update was made, because the training documents fill no batch: omit"):
        recipe(model, per_device_train_batch_size=9, dataloader_drop_last=True)
    assert not (tmp_path / "out" / "model.safetensors").exists()


def test_results_that_are_not_finite_are_json(tmp_path):
    ledger = Ledger(tmp_path)
    ledger.finish("eval", {"eval_loss": float("nan"), "eval_rouge1": 1.5})
    text = (tmp_path / "eval_results.json").read_text()
    assert json.loads(text, parse_constant=pytest.fail) == {"eval_loss": None, "eval_rouge1": 1.5}
    assert str(ledger.results("eval")["eval_loss"]) == "nan"


FILE = {
    "model_type": "bart",
    "learning_rates": ["shared=1e-4"],
    "metrics": ["rouge", "novelty"],
    "config_overrides": {"dropout": 0.2},
    "max_steps": 5,
    "do_train": True,
}


# None, null and empty lists unset what a file sets
CASES_OF_NULL = [
    (["--learning_rates=null"], "learning_rates", []),
    (["--learning_rates", "null", "shared=1"], "learning_rates", ["shared=1"]),
    (["--learning_rates", "shared=1"], "learning_rates", ["shared=1e-4", "shared=1"]),
    (["--metrics=null"], "metrics", ["rouge", "support"]),
    (["--metrics", "bleu"], "metrics", ["bleu"]),
    (["--config_overrides=null"], "config_overrides", {}),
    (["--config_overrides", "null", "d_model=8"], "config_overrides", {"d_model": 8}),
    (["--config_overrides", "d_model=8"], "config_overrides", {"dropout": 0.2, "d_model": 8}),
    (["--max_steps=null"], "max_steps", -1),
    (["--do_train=null"], "do_train", False),
    (["--report_to=null"], "report_to", ["tensorboard"]),
]


@pytest.mark.parametrize(("flags", "name", "value"), CASES_OF_NULL, ids=str)
def test_null_unsets(tmp_path, flags, name, value):
    pytest.importorskip("tensorboard")
    (tmp_path / "run.json").write_text(json.dumps(FILE))
    arguments = parse_arguments([str(tmp_path / "run.json"), "--output_dir", str(tmp_path / "out"), *flags])
    values = [getattr(group, name) for group in vars(arguments).values() if hasattr(group, name)]
    assert values == [value]


SETTINGS_WITHOUT_A_VALUE = ["num_beams", "learning_rates", "metrics", "config_overrides", "report_to", "max_steps"]


@pytest.mark.parametrize("name", SETTINGS_WITHOUT_A_VALUE)
def test_none_is_as_not_given(tmp_path, name):
    def values_of(*flags: str) -> list:
        arguments = parse_arguments([*as_flag("output_dir", str(tmp_path)), "--do_train", *flags])
        return [getattr(group, name, None) for group in vars(arguments).values()]

    assert values_of(*as_flag(name, None)) == values_of()
    if name not in ("num_beams", "max_steps"):
        assert values_of(*as_flag(name, [])) == values_of()
        assert values_of(*as_flag(name, {})) == values_of()


# a flag, its value, and the same value as Python has it;
# pytorch/examples#1104: a sweep's numbers are NumPy's, and transformers' choices are enumerations
CASES_OF_TYPES = [
    ("max_steps", np.int64(7), 7),
    ("weight_decay", np.float32(0.5), 0.5),
    ("bf16", np.bool_(False), False),
    ("metrics", np.array(["rouge", "chrf"]), ["rouge", "chrf"]),
    ("lr_scheduler_type", SchedulerType.LINEAR, "linear"),
    ("config_overrides", {"d_model": np.int64(8), "sizes": np.array([3, 7])}, {"d_model": 8, "sizes": [3, 7]}),
]


@pytest.mark.parametrize(("flag", "value", "plain"), CASES_OF_TYPES)
def test_settings_may_be_of_numpy_or_enumerations(flag, value, plain):
    assert as_flag(flag, value) == as_flag(flag, plain)


# what is deployed is what was scored: the base's prefix and decoding settings are not the adapter's
@pytest.mark.thorough
@pytest.mark.parametrize("name", ["t5", "gdlf"])
def test_an_adapter_keeps_the_settings_of_its_training(recipe, corpus, tiny_tokenizer, tmp_path, name, caplog):
    pytest.importorskip("peft")
    if name == "t5":
        model, reader = foreign("t5", tiny_tokenizer), tiny_tokenizer
    else:
        model, reader = build_with_processor(GDLF, tiny_tokenizer)
    model.config.prefix = "base: "
    model.config.task_specific_params = {"summarization": {"prefix": "base: ", "num_beams": 2, "max_length": 7}}
    base = save(tmp_path / "base", model, reader)
    settings = {"source_prefix": "own: ", "num_beams": 3, "max_new_tokens": 5}
    recipe(base, "adapter", lora_r=2, **settings)
    pipe = pipeline("summarization", model=str(tmp_path / "adapter"))
    assert pipe.model.config.task_specific_params["summarization"]["prefix"] == "own: "
    assert pipe.model.config.prefix == "own: "
    # settings of the pipeline replace those of the model
    decoding, config = pipe.generation_settings(), pipe.model.generation_config
    assert decoding.get("num_beams", config.num_beams) == 3
    assert decoding.get("max_new_tokens", config.max_new_tokens) == 5
    assert pipe.model.adapter_name == str(tmp_path / "adapter")
    # the recipe reads them too
    with caplog.at_level(logging.WARNING):
        recipe(str(tmp_path / "adapter"), "again", do_train=False, do_eval=True)
    assert "which removes 'own: '" in caplog.text


def test_a_tokenizer_reads_as_before_after_a_processor_was_made_of_it(tiny_tokenizer):
    tokenizer = copy.deepcopy(tiny_tokenizer)
    tokenizer.split_special_tokens = False
    before = tokenizer("Ana </s> sold it.")["input_ids"]
    processor = SagCopyProcessor(tokenizer)
    assert tokenizer("Ana </s> sold it.")["input_ids"] == before
    assert processor("Ana </s> sold it.")["input_ids"].count(tokenizer.eos_token_id) == 1


# `variant` is an argument of `from_pretrained`
def test_a_variant_of_the_weights_is_loaded(tiny_tokenizer, tmp_path):
    model, processor = build_with_processor(DRGD, tiny_tokenizer)
    model.save_pretrained(tmp_path, variant="fp16")
    processor.save_pretrained(tmp_path)
    loaded = AutoModelForSeq2SeqLM.from_pretrained(tmp_path, variant="fp16")
    assert loaded.config.equations == "released"
    pipe = pipeline("summarization", model=str(tmp_path), model_kwargs={"variant": "fp16"})
    assert pipe.model.config.equations == "released"
    # `variant` was formerly the name of the key `equations`
    config = json.loads((tmp_path / "config.json").read_text())
    config["variant"] = "printed"
    del config["equations"]
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert type(model.config).from_pretrained(tmp_path).equations == "printed"


# FlagOpen/FlagEmbedding#795: transformers adds NEFTune's noise to an embedding of BART that no forward pass calls
def test_noise_reaches_the_words(recipe, tiny_tokenizer, tmp_path):
    model = save(tmp_path / "model", foreign("bart", tiny_tokenizer, dropout=0.0), tiny_tokenizer)
    loss = recipe(model, "out_quiet", neftune_noise_alpha=0.0)["train_loss"]
    noisy_loss = recipe(model, "out_noisy", neftune_noise_alpha=1e3)["train_loss"]
    assert loss != pytest.approx(noisy_loss, rel=1e-5)


# the decoder's embedding of BERT's words ran the hooks of the encoder's, which ran its own
@pytest.mark.thorough
def test_noise_reaches_the_words_of_bert(recipe, tiny_tokenizer, tmp_path):
    made = replace(COPY_TRANSFORMER_BERT, settings={**COPY_TRANSFORMER_BERT.settings, "side_layers": 0})
    model = save(tmp_path / "model", *build_with_processor(made, tiny_tokenizer))
    loss = recipe(model, "out_quiet", neftune_noise_alpha=0.0)["train_loss"]
    noisy_loss = recipe(model, "out_noisy", neftune_noise_alpha=1e3)["train_loss"]
    assert loss != pytest.approx(noisy_loss, rel=1e-5)


# huggingface/transformers#32622: it is recorded, so that a resumed run has the same
def test_half_precision_of_a_launcher_is_a_setting_of_the_run(tmp_path, monkeypatch):
    monkeypatch.setenv("ACCELERATE_MIXED_PRECISION", "bf16")
    training = parse_arguments(["--output_dir", str(tmp_path), "--use_cpu"]).training
    assert (training.bf16, training.fp16) == (True, False)
