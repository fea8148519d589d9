"""The whole recipe: from files to summaries, through crashes and over processes."""

import json
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
from hf_summ.models.checks import own_settings
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
    results = {split: json.loads((out / f"{split}_results.json").read_text()) for split in ("train", "eval", "predict")}
    assert results["train"]["train_samples"] == 24
    assert {"eval_rouge2", "eval_rougeLsum", "eval_perplexity", "eval_loss"} < results["eval"].keys()
    assert {"predict_rouge1", "predict_lead1_rouge1"} < results["predict"].keys()
    lines = (out / "generated_predictions.txt").read_text(encoding="utf-8").splitlines()
    rows = read_rows(out / "predictions.jsonl")
    assert [row["id"] for row in rows] == [f"doc{index}" for index in range(6)]
    assert [" ".join(row["prediction"].split()) for row in rows] == lines
    assert rows[0]["summary"] == tiny.rows(7, seed=2)[0]["summary"]
    nll, tokens = (sum(row[name] for row in rows) for name in ("nll", "tokens"))
    assert math.exp(nll / tokens) == pytest.approx(results["predict"]["predict_perplexity"], rel=1e-5)
    state = json.loads((out / "trainer_state.json").read_text())
    best = max((entry for entry in state["log_history"] if "eval_rouge2" in entry), key=lambda e: e["eval_rouge2"])
    assert state["best_metric"] == best["eval_rouge2"] == results["eval"]["eval_rouge2"]
    assert "hf_summ" in (out / "README.md").read_text()
    for folder in (out, *out.glob("checkpoint-*")):
        assert not list(folder.glob("*.bin"))
    assert not [path.name for path in out.iterdir() if path.suffix in PICKLES]


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
    predictions, references = [row["prediction"] for row in rows], [row["summary"] for row in rows]
    documents = [row["document"] for row in tiny.rows(7, seed=2)]
    supported = support(predictions, documents)
    expected = rouge_means(predictions, references)
    expected |= rounded(novelty(predictions, documents) | bleu(predictions, references) | supported)
    found = {name: metrics[f"predict_{name}"] for name in expected}
    assert found == pytest.approx(expected, nan_ok=True)
    assert "bleu_signature: nrefs:1|case:mixed|eff:no|tok:13a|" in caplog.text
    found = [math.nan if row["support"] is None else row["support"] for row in rows]
    assert found == pytest.approx(supported["support"].rows(), abs=1e-4, nan_ok=True)
    leads = [lead(document, 1) for document in documents]
    baseline = rouge_means(leads, references) | rounded(support(leads, documents))
    assert {name: metrics[f"predict_lead1_{name}"] for name in baseline} == pytest.approx(baseline)
    printed, out = capsys.readouterr().out, tmp_path / "out"
    ends = [f"all scores in {out}/predict_results.json", f"model in {out}: hf-summ summarize FILE --model {out}"]
    assert printed.splitlines()[-2:] == ends
    tables = re.findall(r"^ +(\S+).*\nmodel .*\nLEAD-1 +(\S+).*$", printed, flags=re.MULTILINE)
    assert [name for name, _ in tables] == ["novel1", "bleu", "support", "rouge1"]
    for name, value in tables:
        assert float(value) == pytest.approx(metrics[f"predict_lead1_{name}"], abs=0.01)
    state = json.loads((tmp_path / "out" / "trainer_state.json").read_text())
    judged = [entry["eval_bleu_precision1"] for entry in state["log_history"] if "eval_bleu" in entry]
    assert (len(judged), state["best_metric"]) == (2, max(judged))


@pytest.mark.thorough
def test_washed_texts_are_scored_against_washed_references(settings, tmp_path):
    rows = [{**row, "summary": "Bridge opens in 2014!"} for row in tiny.rows(12)]
    corpus = tiny.write_rows(tmp_path / "same.jsonl", rows)
    texts = [text for row in rows for text in (row["document"], row["summary"])]
    processor = fit_processor(texts, units="words", washing="lcsts")
    processor.save_pretrained(tmp_path / "washing")
    sizes = {"embedding_size": 8, "hidden_size": 8, "latent_size": 4}
    model = {"model_type": "drgd", "tokenizer_name": str(tmp_path / "washing"), "config_overrides": sizes}
    training = {"train_file": corpus, "test_file": corpus, "max_steps": 20, "learning_rate": 0.05}
    metrics = main([settings(**model, **training, do_predict=True, lead_sentences=1, metrics=["rouge", "novelty"])])
    assert AutoProcessor.from_pretrained(tmp_path / "out").washing == "lcsts"
    saved = read_rows(tmp_path / "out/predictions.jsonl")
    assert [(row["prediction"], row["summary"]) for row in saved] == [("bridgeopensin", "Bridge opens in 2014!")] * 12
    assert [metrics[f"predict_rouge1{end}"] for end in ("", "_low", "_high")] == [100, 100, 100]
    # washed documents are single words as well, so the first sentence is new unless it is the whole document
    whole = [lead(row["document"], 1) == row["document"] for row in rows]
    assert (metrics["predict_novel1"], metrics["predict_lead1_rouge1"]) == (100, 0)
    assert metrics["predict_lead1_copy_rate"] == pytest.approx(100 * sum(whole) / len(whole), abs=1e-4)


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
    # each summary is a name that only its own document has
    rows = [{**row, "summary": f"Name{chr(65 + index)}"} for index, row in enumerate(tiny.rows(12))]
    # every other row has a prefix of its own
    prefixes = ["say so: ", "say it: "] * 6
    rows = [
        {**row, "document": f"{row['summary']}: {row['document']}", "task": None if index % 2 == 0 else prefixes[index]}
        for index, row in enumerate(rows)
    ]
    corpus = tiny.write_rows(tmp_path / "names.jsonl", rows)
    processor = fit_processor([row["document"] for row in tiny.rows(12)], units="words", tags="none")
    processor.save_pretrained(tmp_path / "words")
    sizes = {"embedding_size": 8, "hidden_size": 8, "latent_size": 0, "copy": copies}
    model = {"model_type": "drgd", "tokenizer_name": str(tmp_path / "words"), "config_overrides": sizes}
    files = dict.fromkeys(("train_file", "validation_file", "test_file"), corpus)
    reading = {"source_prefix": "say so: ", "prefix_column": "task", "replace_unk": not copies}
    training = {"do_eval": True, "do_predict": True, "max_steps": 40, "learning_rate": 0.05}
    metrics = main([settings(**model, **files, **reading, **training)])
    assert AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "out").generation_config.replace_unk is not copies
    saved = read_rows(tmp_path / "out/predictions.jsonl")
    predictions = [row["prediction"] for row in saved]
    for prediction, row, prefix in zip(predictions, rows, prefixes, strict=True):
        assert prediction
        assert set(prediction.split()) <= set(re.findall(r"\w+|[.:]", prefix + row["document"]))
    expected = rouge_means(predictions, [row["summary"] for row in rows], rouge_mode="rouge_score")
    for split in ("eval", "predict"):
        assert {name: metrics[f"{split}_{name}"] for name in expected} == pytest.approx(expected)
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
    # batches of transformers' own loader, and of ours
    main([settings(**start, train_tokens_per_batch=None, max_steps=1, use_cpu=False, do_eval=True)])
    texts = [row["document"] for row in tiny.rows(4)]
    before, after = (pipeline("summarization", model=str(tmp_path / name))(texts) for name in ("start", "out"))
    assert after == before
    configs = [json.loads((tmp_path / name / "config.json").read_text("utf-8")) for name in ("start", "out")]
    assert configs[1] == configs[0] | {"task_specific_params": {"summarization": {"prefix": ""}}}
    decoding = json.loads((tmp_path / "out" / "generation_config.json").read_text("utf-8"))
    assert {name: decoding[name] for name in task} == task
    assert not decoding.keys() & own_settings("all")
    assert not [str(warning.message) for warning in recwarn if "pin_memory" in str(warning.message)]
    # flags of the run replace them
    main([settings(**start | {"num_beams": 1, "output_dir": str(tmp_path / "greedy")}, max_steps=1)])
    greedy = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "greedy").generation_config
    assert (greedy.num_beams, greedy.length_penalty, greedy.max_length) == (1, None, 16)
    assert not json.loads((tmp_path / "greedy/generation_config.json").read_text("utf-8")).keys() & own_settings("all")


@pytest.mark.thorough
def test_documents_of_an_example_are_read_one_by_one(settings, tmp_path):
    rows = [{"documents": [row["document"], "A second one."], "summary": row["summary"]} for row in tiny.rows(12)]
    corpus = tiny.write_rows(tmp_path / "clusters.jsonl", rows)
    files = dict.fromkeys(("train_file", "validation_file", "test_file"), corpus)
    prefix = {"source_prefix": "say: ", "max_source_length": 24, "metrics": ["rouge", "novelty"]}
    metrics = main([settings(**files, **prefix, do_eval=True, do_predict=True, max_steps=8, min_new_tokens=4)])
    saved = read_rows(tmp_path / "out/predictions.jsonl")
    summarizer = pipeline("summarization", model=str(tmp_path / "out"))
    together = summarizer([row["documents"] for row in rows])
    assert [row["prediction"] for row in saved] == [record["summary_text"] for record in together]
    assert any(row["prediction"] for row in saved)
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
    resumed = tiny.history(killed, "loss", "nll", "grad_norm", "learning_rate", "epoch")
    schedule = [entry[:4] + entry[5:] for entry in resumed[6:]]
    assert schedule == [entry[:4] + entry[5:] for entry in whole[6:]]
    cards = [(folder / "README.md").read_text(encoding="utf-8") for folder in (tmp_path / "whole", killed)]
    assert cards[1] == cards[0].replace("whole", "killed")


@pytest.mark.thorough
def test_two_processes_give_the_losses_of_one(settings, tmp_path):
    evaluation = {"do_eval": True, "eval_strategy": "steps", "eval_steps": 3, "metrics": ["rouge", "bleu", "novelty"]}
    path = settings(**evaluation, max_steps=6, train_tokens_per_batch=None)
    # untrained models have no ROUGE
    trained = str(tmp_path / "trained")
    main([path, "--max_steps", "300", "--no_do_eval", "--eval_strategy", "no", "--output_dir", trained])
    rewarded = ["--model_name_or_path", trained, "--reward_samples", "2", "--reward_temperature", "1e-4"]
    examples = ["--per_device_train_batch_size"]
    kinds = {
        "tokens": ([path, "--train_tokens_per_batch", "120"], ["--gradient_accumulation_steps", "2"], []),
        # samples without noise are equal, so the processes need not draw the numbers of one
        "rewards": ([path, "--train_tokens_per_batch", "120", *rewarded], ["--gradient_accumulation_steps", "2"], []),
        # huggingface/transformers#26548
        "stream": ([path, "--streaming"], [*examples, "4"], [*examples, "2"]),
        # on a CPU each process keeps the whole model
        "examples": ([path], [*examples, "4"], [*examples, "2", "--fsdp"]),
    }
    commands = []
    for kind, (common, alone, shared) in kinds.items():
        main([*common, *alone, "--output_dir", str(tmp_path / kind)])
        commands.append([*common, *shared, "--output_dir", str(tmp_path / f"{kind}2")])
    output, errors = launch(commands, "two_processes.py")
    assert sorted(re.findall(r"process \d of \d", output)) == ["process 0 of 2", "process 1 of 2"]
    assert errors.count("FSDP is off, because accelerate shards over GPUs only: each process has the whole model") == 1
    keys = ("loss", "nll", "grad_norm", "learning_rate")
    for kind in kinds:
        alone, shared = (tiny.history(tmp_path / name, *keys) for name in (kind, f"{kind}2"))
        assert len(alone) == 6
        assert shared == [pytest.approx(entry, rel=1e-5) for entry in alone]
        scores = ("eval_nll", "eval_rouge2", "eval_bleu", "eval_novel1", "eval_length")
        # a score without a value is null in the log
        evaluated = [np.array(tiny.history(tmp_path / name, *scores), float) for name in (kind, f"{kind}2")]
        assert evaluated[1] == pytest.approx(evaluated[0], rel=1e-5, nan_ok=True)
        assert len(evaluated[0]) >= 2
        card = (tmp_path / f"{kind}2" / "README.md").read_text(encoding="utf-8")
        assert "- devices: 2 × cpu\n" in card
        assert not list((tmp_path / f"{kind}2").glob(".*.part"))
    rewards = [tiny.history(tmp_path / name, "reward") for name in ("rewards", "rewards2")]
    assert rewards[1] == [pytest.approx(entry, rel=1e-5) for entry in rewards[0]]
    assert all(reward > 0.1 for _, reward in rewards[0])


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
    nll, pad = {}, "--pad_to_max_length"
    flags = {"plain": [], "padded": [pad], "learned": [pad, "--no_ignore_pad_token_for_loss"], "half": ["--bf16"]}
    for name, given in flags.items():
        main([path, "--output_dir", str(tmp_path / name), *given])
        nll[name] = tiny.history(tmp_path / name, "nll")[0][1]
    assert nll["padded"] == pytest.approx(nll["plain"], rel=1e-5)
    assert nll["half"] == pytest.approx(nll["plain"], rel=0.02)
    assert nll["learned"] != pytest.approx(nll["plain"], rel=1e-3)


@pytest.mark.thorough
def test_awkward_documents_are_trained_on_and_summarized(settings, tmp_path):
    texts = ["x", "\x00\x07 bell", "🎉 👩‍👩‍👧", "市长打开了新桥。", "One.\r\nTwo.\u2028Three.\x85Four."]
    texts.append("word " * 100_000)
    rows = [{"document": text, "summary": text[:20]} for text in texts]
    blank = [{"document": "A bridge.", "summary": " "}, {"document": "", "summary": "A bridge."}]
    corpus = tiny.write_rows(tmp_path / "awkward.jsonl", rows + blank)
    files = {f"{split}_file": corpus for split in ("train", "validation", "test")}
    metrics = main([settings(**files, max_steps=3, do_eval=True, do_predict=True, lead_sentences=1)])
    assert metrics["train_samples"] == metrics["eval_samples"] == metrics["predict_samples"] == len(rows)
    assert all(math.isfinite(metrics[name]) for name in ("train_loss", "eval_loss", "predict_loss"))
    predictions = (tmp_path / "out" / "predictions.jsonl").read_text(encoding="utf-8")
    assert len(predictions.split("\n")) == len(rows) + 1


@pytest.mark.thorough
def test_documents_without_words_are_left_out_of_novelty(settings, tmp_path):
    rows = [*tiny.rows(2), {"document": "🎉 市长打开了新桥。", "summary": "A bridge."}]
    corpus = tiny.write_rows(tmp_path / "wordless.jsonl", rows)
    metrics = main([settings(test_file=corpus, do_predict=True, lead_sentences=1), "--metrics", "novelty"])
    documents = [row["document"] for row in rows[:2]]
    found = {name: metrics[f"predict_lead1_{name}"] for name in TITLES}
    assert found == pytest.approx(
        rounded(novelty([lead(document, 1) for document in documents], documents)), nan_ok=True
    )


@pytest.mark.thorough
@pytest.mark.parametrize("dequantize", [False, True])
def test_checkpoint_in_8_bits_is_trained_in_32(settings, tmp_path, processor_folder, dequantize):
    processor, model = AutoProcessor.from_pretrained(processor_folder), tmp_path / "model"
    tiny.gdlf(processor).save_pretrained(model)
    config = Int8Config(least_weights=1, dequantize=dequantize)
    save(model, GdlfForConditionalGeneration.from_pretrained(model, quantization_config=config), processor)
    saved = {name for name, value in load_file(model / "model.safetensors").items() if value.dtype == torch.int8}
    main([settings(config_overrides=None, model_name_or_path=str(model), max_steps=1)])
    trained = load_file(tmp_path / "out" / "model.safetensors")
    assert saved
    assert all(trained[name].dtype == torch.float32 for name in saved)
    assert not any(name.endswith("_scale") for name in trained)
