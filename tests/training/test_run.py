"""The whole recipe: from files to summaries, through crashes and over processes."""

import math
import re
import signal
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoConfig, AutoModelForSeq2SeqLM, AutoProcessor, pipeline

from hf_summ import GdlfForConditionalGeneration, Int8Config
from hf_summ.data import lead
from hf_summ.data.vocabulary import fit_processor
from hf_summ.evaluation import bleu, novelty, support
from hf_summ.evaluation.novelty import TITLES
from hf_summ.evaluation.significance import rounded
from hf_summ.models.checks import ALL_OURS, added_settings
from hf_summ.training import train
from hf_summ.training.run import main
from tests.conftest import ROOT, run_python, save, start
from tests.data.files import read_rows
from tests.evaluation.scores import rouge_means
from tests.training import tiny
from tests.training.conftest import PICKLES, launch

EVERY_4 = {"eval_strategy": "steps", "eval_steps": 4, "save_strategy": "steps", "save_steps": 4}


@pytest.mark.thorough
def test_script_trains_evaluates_and_predicts(settings, tmp_path):
    decoding = {"num_beams": 2, "no_repeat_word_ngram_size": 3, "lead_sentences": 1, "show_summaries": 2}
    path = settings(**EVERY_4, do_eval=True, do_predict=True, early_stopping_patience=5, **decoding)
    output, _ = run_python("run_summarization.py", path, "--max_predict_samples", "6", cwd=ROOT)
    assert "LEAD-1" in output
    assert output.count("reference: ") == 2
    out = tmp_path / "out"
    model = AutoModelForSeq2SeqLM.from_pretrained(out)
    processor = AutoProcessor.from_pretrained(out)
    assert model.config.vocab_size == len(processor.tokenizer)
    assert model.generation_config.no_repeat_word_ngram_size == 3
    assert (model.generation_config.num_beams, model.generation_config.max_new_tokens) == (2, 6)
    train_results = tiny.read_json(out / "train_results.json")
    eval_results = tiny.read_json(out / "eval_results.json")
    predict_results = tiny.read_json(out / "predict_results.json")
    assert train_results["train_samples"] == 24
    assert {"eval_rouge2", "eval_rougeLsum", "eval_perplexity", "eval_loss"} < eval_results.keys()
    assert {"predict_rouge1", "predict_lead1_rouge1"} < predict_results.keys()
    lines = (out / "generated_predictions.txt").read_text(encoding="utf-8").splitlines()
    rows = read_rows(out / "predictions.jsonl")
    assert [row["id"] for row in rows] == [f"doc{index}" for index in range(6)]
    assert [" ".join(row["prediction"].split()) for row in rows] == lines
    assert rows[0]["summary"] == tiny.rows(7, seed=2)[0]["summary"]
    nll = sum(row["nll"] for row in rows)
    tokens = sum(row["tokens"] for row in rows)
    assert math.exp(nll / tokens) == pytest.approx(predict_results["predict_perplexity"], rel=1e-5)
    best = max(score for _, score in tiny.history(out, "eval_rouge2"))
    assert tiny.read_json(out / "trainer_state.json")["best_metric"] == best == eval_results["eval_rouge2"]
    assert "hf_summ" in (out / "README.md").read_text()
    assert not list(out.glob("*.bin"))
    assert not list(out.glob("checkpoint-*/*.bin"))
    for file in out.iterdir():
        assert file.suffix not in PICKLES


def test_saved_model_alone_gives_the_scores_of_the_run(settings, tmp_path, monkeypatch):
    path = settings(do_eval=True)
    metrics = main([path])
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    flags = ["--model_name_or_path", str(tmp_path / "out"), "--validation_file", str(tmp_path / "validation.jsonl")]
    alone = main([*flags, "--do_eval", "--use_cpu", "--eval_tokens_per_batch", "70"])
    for name in ("eval_loss", "eval_perplexity", "eval_rouge1", "eval_gen_len"):
        assert alone[name] == pytest.approx(metrics[name], rel=1e-5)
    assert list(Path.cwd().iterdir()) == []


def test_metrics_of_the_run_are_computed_and_compared_with_lead(settings, tmp_path, capsys, caplog):
    measures = {"metrics": ["novelty", "bleu", "support", "rouge"], "rouge_mode": "rouge155", "lead_sentences": 1}
    best = {"metric_for_best_model": "bleu_precision1", "load_best_model_at_end": True, "max_eval_samples": 4}
    metrics = main([settings(**EVERY_4, **measures, **best, do_predict=True)])
    rows = read_rows(tmp_path / "out/predictions.jsonl")
    predictions = [row["prediction"] for row in rows]
    references = [row["summary"] for row in rows]
    documents = [row["document"] for row in tiny.rows(7, seed=2)]
    expected_support = support(predictions, documents)
    expected = rouge_means(predictions, references)
    expected |= rounded(novelty(predictions, documents))
    expected |= rounded(bleu(predictions, references))
    expected |= rounded(expected_support)
    assert tiny.prefixed(metrics, "predict_", expected) == pytest.approx(expected, nan_ok=True)
    assert "bleu_signature: nrefs:1|case:mixed|eff:no|tok:13a|" in caplog.text
    support_by_row = np.array([row["support"] for row in rows], float)  # a row without a value has null
    assert support_by_row == pytest.approx(expected_support["support"].rows(), abs=1e-4, nan_ok=True)
    leads = [lead(document, 1) for document in documents]
    baseline = rouge_means(leads, references) | rounded(support(leads, documents))
    assert tiny.prefixed(metrics, "predict_lead1_", baseline) == pytest.approx(baseline)
    printed = capsys.readouterr().out
    out = tmp_path / "out"
    last_lines = [f"all scores in {out}/predict_results.json", f"model in {out}: hf-summ summarize FILE --model {out}"]
    assert printed.splitlines()[-2:] == last_lines
    tables = re.findall(r"^ +(\S+).*\nmodel .*\nLEAD-1 +(\S+).*$", printed, flags=re.MULTILINE)
    assert [name for name, _ in tables] == ["novel1", "bleu", "support", "rouge1"]
    for name, value in tables:
        assert float(value) == pytest.approx(metrics[f"predict_lead1_{name}"], abs=0.01)
    precisions = [precision for _, precision, _ in tiny.history(out, "eval_bleu_precision1", "eval_bleu")]
    assert len(precisions) == 2
    assert tiny.read_json(out / "trainer_state.json")["best_metric"] == max(precisions)


@pytest.mark.thorough
def test_washed_texts_are_scored_against_washed_references(settings, tmp_path):
    rows = tiny.rows(12)
    texts = []
    for row in rows:
        row["summary"] = "Bridge opens in 2014!"
        texts.extend([row["document"], row["summary"]])
    corpus = tiny.write_rows(tmp_path / "same.jsonl", rows)
    processor = fit_processor(texts, units="words", washing="lcsts")
    processor.save_pretrained(tmp_path / "washing")
    sizes = {"embedding_size": 8, "hidden_size": 8, "latent_size": 4}
    model = {"model_type": "drgd", "tokenizer_name": str(tmp_path / "washing"), "config_overrides": sizes}
    training = {"train_file": corpus, "test_file": corpus, "max_steps": 20, "learning_rate": 0.05}
    metrics = main([settings(**model, **training, do_predict=True, lead_sentences=1, metrics=["rouge", "novelty"])])
    assert AutoProcessor.from_pretrained(tmp_path / "out").washing == "lcsts"
    saved = read_rows(tmp_path / "out/predictions.jsonl")
    assert [(row["prediction"], row["summary"]) for row in saved] == [("bridgeopensin", "Bridge opens in 2014!")] * 12
    assert metrics["predict_rouge1"] == 100
    assert metrics["predict_rouge1_low"] == 100
    assert metrics["predict_rouge1_high"] == 100
    # washed documents are single words as well, so the first sentence is new unless it is the whole document
    is_whole = [lead(row["document"], 1) == row["document"] for row in rows]
    assert metrics["predict_novel1"] == 100
    assert metrics["predict_lead1_rouge1"] == 0
    assert metrics["predict_lead1_copy_rate"] == pytest.approx(100 * sum(is_whole) / len(is_whole), abs=1e-4)


@pytest.mark.thorough
def test_predictions_have_the_case_of_their_documents(settings, tmp_path):
    texts = [row["document"] for row in tiny.rows(12)]
    fit_processor(texts, vocab_size=300, lowercase=True, tags="none").save_pretrained(tmp_path / "uncased")
    words = {"tokenizer_name": str(tmp_path / "uncased"), "restore_case": True, "source_prefix": "SAY SO: "}
    main([settings(**words, do_predict=True, max_steps=5)])
    summarizer = pipeline("summarization", model=str(tmp_path / "out"))
    rows = read_rows(tmp_path / "out/predictions.jsonl")
    documents = [row["document"] for row in read_rows(tmp_path / "test.jsonl")]
    predictions = [row["prediction"] for row in rows]
    assert [record["summary_text"] for record in summarizer(documents)] == predictions
    assert any(prediction != prediction.lower() for prediction in predictions)
    summarizer.processor.restore_case = False
    plain = [record["summary_text"] for record in summarizer(documents)]
    assert plain == [prediction.lower() for prediction in predictions]


@pytest.mark.thorough
@pytest.mark.parametrize("copies", [False, True])
def test_unknown_words_are_replaced_or_copied_in_every_evaluation(copies, settings, tmp_path):
    rows = tiny.rows(12)
    # every second row has a prefix in its column
    prefixes = ["say so: ", "say it: "] * 6
    for index, row in enumerate(rows):
        # each summary is a name that no other document has
        name = f"Name{chr(65 + index)}"
        row["summary"] = name
        row["document"] = f"{name}: {row['document']}"
        row["task"] = None
        if index % 2 == 1:
            row["task"] = prefixes[index]
    corpus = tiny.write_rows(tmp_path / "names.jsonl", rows)
    processor = fit_processor([row["document"] for row in tiny.rows(12)], units="words", tags="none")
    processor.save_pretrained(tmp_path / "words")
    sizes = {"embedding_size": 8, "hidden_size": 8, "latent_size": 0, "copy": copies}
    model = {"model_type": "drgd", "tokenizer_name": str(tmp_path / "words"), "config_overrides": sizes}
    files = {"train_file": corpus, "validation_file": corpus, "test_file": corpus}
    reading = {"source_prefix": "say so: ", "prefix_column": "task", "replace_unk": not copies}
    training = {"do_eval": True, "do_predict": True, "max_steps": 40, "learning_rate": 0.05}
    metrics = main([settings(**model, **files, **reading, **training)])
    assert AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "out").generation_config.replace_unk is not copies
    saved = read_rows(tmp_path / "out/predictions.jsonl")
    predictions = [row["prediction"] for row in saved]
    for prediction, row, prefix in zip(predictions, rows, prefixes, strict=True):
        source_words = re.findall(r"\w+|[.:]", prefix + row["document"])
        assert prediction
        assert set(prediction.split()) <= set(source_words)
    references = [row["summary"] for row in rows]
    expected = rouge_means(predictions, references, rouge_mode="rouge_score")
    assert tiny.prefixed(metrics, "eval_", expected) == pytest.approx(expected)
    assert tiny.prefixed(metrics, "predict_", expected) == pytest.approx(expected)
    summarizer = pipeline("summarization", model=str(tmp_path / "out"))
    for row, prediction, prefix in zip(rows, predictions, prefixes, strict=True):
        assert summarizer(row["document"], source_prefix=prefix) == [{"summary_text": prediction}]
    assert summarizer(rows[0]["document"]) == [{"summary_text": predictions[0]}]


@pytest.mark.thorough
def test_fine_tuned_models_of_transformers_decode_like_their_start(settings, tmp_path, tiny_tokenizer, recwarn):
    model = tiny.bart(tiny_tokenizer)
    task = {"num_beams": 3, "max_length": 16, "min_length": 12, "length_penalty": 1.0, "no_repeat_ngram_size": 2}
    model.config.task_specific_params = {"summarization": task}
    model.generation_config.max_new_tokens = 3
    save(tmp_path / "start", model, tiny_tokenizer)
    start = {"model_name_or_path": str(tmp_path / "start"), "tokenizer_name": None, "model_type": None}
    start |= {"config_overrides": {}, "optimizer": None, "schedule": None, "max_new_tokens": None, "learning_rate": 0}
    # without tokens per batch the loader is that of transformers; the evaluation has batches of hf_summ
    main([settings(**start, train_tokens_per_batch=None, max_steps=1, use_cpu=False, do_eval=True)])
    texts = [row["document"] for row in tiny.rows(4)]
    before = pipeline("summarization", model=str(tmp_path / "start"))(texts)
    after = pipeline("summarization", model=str(tmp_path / "out"))(texts)
    assert after == before
    expected_config = tiny.read_json(tmp_path / "start" / "config.json")
    expected_config["task_specific_params"] = {"summarization": {"prefix": ""}}
    assert tiny.read_json(tmp_path / "out" / "config.json") == expected_config
    decoding = tiny.read_json(tmp_path / "out" / "generation_config.json")
    assert task.items() <= decoding.items()
    assert not decoding.keys() & added_settings(ALL_OURS)
    for warning in recwarn:
        assert "pin_memory" not in str(warning.message)
    # flags of the run replace the settings of the task
    greedy_folder = tmp_path / "greedy"
    main([settings(**start | {"num_beams": 1, "output_dir": str(greedy_folder)}, max_steps=1)])
    greedy = AutoModelForSeq2SeqLM.from_pretrained(greedy_folder).generation_config
    assert (greedy.num_beams, greedy.length_penalty, greedy.max_length) == (1, None, 16)
    assert not tiny.read_json(greedy_folder / "generation_config.json").keys() & added_settings(ALL_OURS)


@pytest.mark.thorough
def test_documents_of_an_example_are_read_one_by_one(settings, tmp_path):
    rows = []
    for row in tiny.rows(12):
        rows.append({"documents": [row["document"], "A second one."], "summary": row["summary"]})
    corpus = tiny.write_rows(tmp_path / "clusters.jsonl", rows)
    files = {"train_file": corpus, "validation_file": corpus, "test_file": corpus}
    reading = {"source_prefix": "say: ", "max_source_length": 24, "metrics": ["rouge", "novelty"]}
    metrics = main([settings(**files, **reading, do_eval=True, do_predict=True, max_steps=8, min_new_tokens=4)])
    predictions = [row["prediction"] for row in read_rows(tmp_path / "out/predictions.jsonl")]
    summarizer = pipeline("summarization", model=str(tmp_path / "out"))
    records = summarizer([row["documents"] for row in rows])
    assert predictions == [record["summary_text"] for record in records]
    assert any(predictions)
    assert "predict_novel1" in metrics


@pytest.mark.thorough
def test_run_killed_in_the_middle_goes_on_to_the_same_losses(settings, tmp_path, caplog):
    changes = {"config_overrides": tiny.MODEL, "train_tokens_per_batch": 120, "save_strategy": "steps", "save_steps": 3}
    # long enough to be killed in the middle
    path = settings(**changes, max_steps=100)
    main([path, "--output_dir", str(tmp_path / "whole")])
    whole = tiny.history(tmp_path / "whole", "loss", "nll", "grad_norm", "learning_rate", "epoch")
    assert len(whole) == 100
    assert whole[4][-1] % 1 > 0

    killed = tmp_path / "killed"
    process = start("run_summarization.py", path, "--output_dir", str(killed), cwd=ROOT)
    while not (killed / "checkpoint-6" / "trainer_state.json").exists():
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    # what was written after the kill is aimed at is cut off, as the kill may leave it
    for folder in killed.glob("checkpoint-*"):
        if int(folder.name.split("-")[1]) > 6:
            (folder / "trainer_state.json").unlink(missing_ok=True)
    main([path, "--output_dir", str(killed)])
    assert f"resuming from {killed / 'checkpoint-6'}" in caplog.text
    names = ("loss", "nll", "grad_norm", "epoch")  # without the learning rate
    assert tiny.history(killed, *names)[6:] == tiny.history(tmp_path / "whole", *names)[6:]
    whole_card = (tmp_path / "whole" / "README.md").read_text(encoding="utf-8")
    killed_card = (killed / "README.md").read_text(encoding="utf-8")
    assert killed_card == whole_card.replace("whole", "killed")


def check_same_history(expected_folder: Path, folder: Path, *keys: str) -> None:
    """Two runs log the same values at the same steps; a score without a value is null in the log."""
    expected = np.array(tiny.history(expected_folder, *keys), float)
    assert np.array(tiny.history(folder, *keys), float) == pytest.approx(expected, rel=1e-5, nan_ok=True)


@pytest.mark.thorough
def test_two_processes_give_the_losses_of_one(settings, tmp_path):
    evaluation = {"do_eval": True, "eval_strategy": "steps", "eval_steps": 3, "metrics": ["rouge", "bleu", "novelty"]}
    path = settings(**evaluation, max_steps=6, train_tokens_per_batch=None)
    # untrained models have no ROUGE
    trained = str(tmp_path / "trained")
    main([path, "--max_steps", "300", "--no_do_eval", "--eval_strategy", "no", "--output_dir", trained])
    rewarded = ["--model_name_or_path", trained, "--reward_samples", "2", "--reward_temperature", "1e-4"]
    tokens = ["--train_tokens_per_batch", "120"]
    accumulation = ["--gradient_accumulation_steps", "2"]
    examples_of_4 = ["--per_device_train_batch_size", "4"]
    examples_of_2 = ["--per_device_train_batch_size", "2"]
    # the flags of every run, those of one process, and those of two
    kinds = {
        "tokens": (tokens, accumulation, []),
        # samples without noise are equal, so the processes need not draw the numbers of one
        "rewards": ([*tokens, *rewarded], accumulation, []),
        # huggingface/transformers#26548
        "stream": (["--streaming"], examples_of_4, examples_of_2),
        # on a CPU each process keeps the whole model
        "examples": ([], examples_of_4, [*examples_of_2, "--fsdp"]),
    }
    commands = []
    for kind, (common_flags, flags_of_one, flags_of_two) in kinds.items():
        main([path, *common_flags, *flags_of_one, "--output_dir", str(tmp_path / kind)])
        commands.append([path, *common_flags, *flags_of_two, "--output_dir", str(tmp_path / f"{kind}2")])
    output, errors = launch(commands, "two_processes.py")
    assert sorted(re.findall(r"process \d of \d", output)) == ["process 0 of 2", "process 1 of 2"]
    assert errors.count("FSDP is off, because accelerate shards over GPUs only: each process has the whole model") == 1
    for kind in kinds:
        folder_of_one = tmp_path / kind
        folder_of_two = tmp_path / f"{kind}2"
        check_same_history(folder_of_one, folder_of_two, "loss", "nll", "grad_norm", "learning_rate")
        assert len(tiny.history(folder_of_one, "loss")) == 6
        check_same_history(
            folder_of_one, folder_of_two, "eval_nll", "eval_rouge2", "eval_bleu", "eval_novel1", "eval_length"
        )
        assert len(tiny.history(folder_of_one, "eval_nll")) >= 2
        card = (folder_of_two / "README.md").read_text(encoding="utf-8")
        assert "- devices: 2 × cpu\n" in card
        assert not list(folder_of_two.glob(".*.part"))
    check_same_history(tmp_path / "rewards", tmp_path / "rewards2", "reward")
    for _, reward in tiny.history(tmp_path / "rewards", "reward"):
        assert reward > 0.1


def test_a_call_is_the_command(settings, tmp_path):
    path = settings(num_beams=2)
    sizes = {"encoder_kernel_sizes": [5]}
    metrics = train(path, max_steps=2, num_beams=None, lr_scheduler_kwargs=None, config_overrides=sizes)
    assert AutoConfig.from_pretrained(tmp_path / "out").encoder_kernel_sizes == [5]
    flags = ["--max_steps=2", "--num_beams=null", "--config_overrides", "encoder_kernel_sizes=[5]"]
    assert metrics == main([path, *flags])
    with pytest.raises(ValueError, match="unknown flag --max_step; did you mean --max_steps"):
        train(path, max_step=2)


@pytest.mark.thorough
def test_padding_flags(settings, tmp_path):
    path = settings(max_steps=1, train_tokens_per_batch=None, per_device_train_batch_size=24, logging_steps=1)

    def first_nll(name: str, *flags: str) -> float:
        main([path, "--output_dir", str(tmp_path / name), *flags])
        return tiny.history(tmp_path / name, "nll")[0][1]

    expected = first_nll("plain")
    assert first_nll("padded", "--pad_to_max_length") == pytest.approx(expected, rel=1e-5)
    assert first_nll("half", "--bf16") == pytest.approx(expected, rel=0.02)
    learned = first_nll("learned", "--pad_to_max_length", "--no_ignore_pad_token_for_loss")
    assert learned != pytest.approx(expected, rel=1e-3)


@pytest.mark.thorough
def test_awkward_documents_are_trained_on_and_summarized(settings, tmp_path):
    texts = ["x", "\x00\x07 bell", "🎉 👩‍👩‍👧", "市长打开了新桥。", "One.\r\nTwo.\u2028Three.\x85Four."]
    texts.append("word " * 100_000)
    rows = [{"document": text, "summary": text[:20]} for text in texts]
    blank = [{"document": "A bridge.", "summary": " "}, {"document": "", "summary": "A bridge."}]
    corpus = tiny.write_rows(tmp_path / "awkward.jsonl", rows + blank)
    files = {"train_file": corpus, "validation_file": corpus, "test_file": corpus}
    metrics = main([settings(**files, max_steps=3, do_eval=True, do_predict=True, lead_sentences=1)])
    assert metrics["train_samples"] == metrics["eval_samples"] == metrics["predict_samples"] == len(rows)
    assert math.isfinite(metrics["train_loss"])
    assert math.isfinite(metrics["eval_loss"])
    assert math.isfinite(metrics["predict_loss"])
    predictions = (tmp_path / "out" / "predictions.jsonl").read_text(encoding="utf-8")
    assert len(predictions.split("\n")) == len(rows) + 1


@pytest.mark.thorough
def test_documents_without_words_are_left_out_of_novelty(settings, tmp_path):
    rows = tiny.rows(2)
    wordless = {"document": "🎉 市长打开了新桥。", "summary": "A bridge."}
    corpus = tiny.write_rows(tmp_path / "wordless.jsonl", [*rows, wordless])
    metrics = main([settings(test_file=corpus, do_predict=True, lead_sentences=1), "--metrics", "novelty"])
    documents = [row["document"] for row in rows]
    leads = [lead(document, 1) for document in documents]
    expected = rounded(novelty(leads, documents))
    assert tiny.prefixed(metrics, "predict_lead1_", TITLES) == pytest.approx(expected, nan_ok=True)


@pytest.mark.thorough
@pytest.mark.parametrize("dequantize", [False, True])
def test_checkpoint_in_8_bits_is_trained_in_32(settings, tmp_path, processor_folder, dequantize):
    processor, model = AutoProcessor.from_pretrained(processor_folder), tmp_path / "model"
    tiny.gdlf(processor).save_pretrained(model)
    config = Int8Config(least_weights=1, dequantize=dequantize)
    save(model, GdlfForConditionalGeneration.from_pretrained(model, quantization_config=config), processor)
    weights = load_file(model / "model.safetensors")
    names_in_8_bits = [name for name, weight in weights.items() if weight.dtype == torch.int8]
    main([settings(config_overrides=None, model_name_or_path=str(model), max_steps=1)])
    trained = load_file(tmp_path / "out" / "model.safetensors")
    assert names_in_8_bits
    for name in names_in_8_bits:
        assert trained[name].dtype == torch.float32
    assert not any(name.endswith("_scale") for name in trained)
