"""`hf-summ summarize` on a tiny model."""

import io
import json
import re
import shutil
import sys
from pathlib import Path

import pytest
import torch
from transformers import pipeline

from hf_summ import DrgdConfig, DrgdForConditionalGeneration, DrgdProcessor, GdlfForConditionalGeneration, Int8Config
from hf_summ.data.vocabulary import fit_processor
from tests.conftest import SENTENCES, run_python, save
from tests.data.files import change_json, json_lines, write
from tests.training.tiny import cut

MODEL = ("--model", "model")
# the tiny model summarizes each of them differently
DOCUMENTS = [SENTENCES[0], SENTENCES[1], SENTENCES[4]]


@pytest.fixture
def files(workplace) -> list[str]:
    """Three documents."""
    names = ["a.txt", "b.txt", "c.txt"]
    for name, document in zip(names, DOCUMENTS, strict=True):
        (workplace / name).write_text(document, encoding="utf-8")
    return names


@pytest.fixture
def expected(files) -> list[str]:
    """The summaries of the three documents."""
    return summaries_of(DOCUMENTS)


def summaries_of(documents: list, **settings) -> list[str]:
    """The summaries that the pipeline of the workplace's model makes."""
    records = pipeline("summarization", model="model")(documents, **settings)
    return [record["summary_text"] for record in records]


def test_one_file_gives_its_summary_alone(run, files, expected):
    output, errors = run("summarize", "a.txt", *MODEL)
    assert output == f"{expected[0]}\n"
    assert "summarizing" not in errors


@pytest.mark.thorough
def test_training_is_not_imported(files):
    """The recipe, and the libraries that it alone needs, would take a second of CPU."""
    heavy = ["datasets", "pandas", "pyarrow", "transformers.trainer", "hf_summ.training", "hf_summ.offline"]
    code = f"import sys, hf_summ.cli; hf_summ.cli.main(sys.argv[1:]); print(list(set({heavy}) & sys.modules.keys()))"
    output, _ = run_python("-c", code, "summarize", "a.txt", *MODEL, "--output", "summary.txt")
    assert output == "[]\n"


@pytest.mark.thorough
def test_many_files_are_named_and_show_progress(run, files, expected):
    output, errors = run("summarize", *files, *MODEL, "--batch_size", "2")
    assert output == f"a.txt: {expected[0]}\nb.txt: {expected[1]}\nc.txt: {expected[2]}\n"
    assert "3/3" in errors


@pytest.mark.thorough
def test_files_are_summarized_together(run, files, workplace):
    (summary,) = summaries_of([DOCUMENTS])
    Path("blank.txt").write_text(" \n", encoding="utf-8")
    output, errors = run("summarize", *files[:2], "blank.txt", files[2], *MODEL, "--together")
    assert output == f"{summary}\n"
    assert "hf-summ: blank.txt is blank: it is omitted\n" in errors
    output, _ = run("summarize", *files, *MODEL, "--together", "--format", "jsonl")
    assert json.loads(output) == {"files": files, "summary": summary}
    output, _ = run("summarize", "blank.txt", *MODEL, "--together")
    assert output == "\n"


@pytest.mark.thorough
def test_json_lines_have_a_file_and_its_summary(run, files, expected):
    output, _ = run("summarize", *files, *MODEL, "--format", "jsonl")
    records = [json.loads(line) for line in output.splitlines()]
    for record, file, summary in zip(records, files, expected, strict=True):
        assert record == {"file": file, "summary": summary}


@pytest.mark.thorough
def test_long_documents_are_read_as_asked_for(run, files, workplace):
    text = " ".join(SENTENCES * 8)
    (workplace / "long.txt").write_text(text, encoding="utf-8")
    summarizer = pipeline("summarization", model="model")
    for way in ("truncate", "extract", "windows"):
        (record,) = summarizer(text, long_documents=way, return_details=True)
        flags = ("--long_documents", way, "--details", "--format", "jsonl")
        output, _ = run("summarize", "long.txt", "a.txt", *MODEL, *flags)
        long_record, short_record = [json.loads(line) for line in output.splitlines()]
        assert long_record == {"file": "long.txt", "summary": record["summary_text"], **record["details"]}
        assert long_record["source_tokens"] > 48
        assert short_record["cut_tokens"] == 0
        output, _ = run("summarize", "long.txt", *MODEL, "--long_documents", way)
        assert output == record["summary_text"] + "\n"


@pytest.mark.thorough
@pytest.mark.parametrize("form", ["text", "jsonl"])
def test_names_that_are_no_text_are_written_as_such(run, files, workplace, form):
    Path("a.txt").rename("caf\udce9.txt")
    run("summarize", "caf\udce9.txt", "b.txt", *MODEL, "--format", form, "--output", "out")
    assert "caf\ufffd.txt" in (workplace / "out").read_text(encoding="utf-8")


def test_summaries_with_the_most_tokens_allowed_are_noted(run, files, workplace):
    flags = (*MODEL, "--max_new_tokens", "3")
    note = "the summary of a.txt has the most tokens allowed: raise --max_new_tokens if it is cut off"
    _, errors = run("summarize", files[0], *flags)
    assert note in errors
    write(workplace / "rows.jsonl", json_lines([{"text": text} for text in DOCUMENTS]))
    _, errors = run("summarize", "rows.jsonl", "--output", "out", *flags)
    note = (
        "3 of these rows have a summary with the most tokens allowed: raise --max_new_tokens if summaries are cut off"
    )
    assert note in errors


def test_generation_settings_are_handed_on(run, files):
    settings = {"num_beams": 3, "max_new_tokens": 4, "min_new_words": 1, "length_penalty": 0.5}
    flags = [f"--{name}={value}" for name, value in settings.items()]
    (summary,) = summaries_of(DOCUMENTS[:1], **settings)
    output, _ = run("summarize", "a.txt", *MODEL, *flags)
    assert output == f"{summary}\n"


@pytest.mark.thorough
def test_a_sample_is_that_of_its_seed_and_settings(run, files):
    def sample(*flags: str) -> str:
        settings = ("--max_new_tokens", "8", "--do_sample", "--num_beams", "1")
        output, _ = run("summarize", "a.txt", *MODEL, *settings, *flags)
        return output

    first_sample = sample("--seed", "1")
    assert sample("--seed", "1") == first_sample
    assert sample("--seed", "2") != first_sample
    assert sample() == sample("--seed", "0")
    summarizer = pipeline("summarization", model="model")
    torch.manual_seed(1)
    (record,) = summarizer(DOCUMENTS[:1], do_sample=True, num_beams=1, top_k=2, max_new_tokens=8)
    assert sample("--seed", "1", "--top_k", "2") == record["summary_text"] + "\n"


@pytest.mark.thorough
def test_the_model_has_the_precision_of_the_flag(run, files):
    for dtype in ("bfloat16", "float32"):
        (record,) = pipeline("summarization", model="model", dtype=dtype)(DOCUMENTS[0])
        output, _ = run("summarize", "a.txt", *MODEL, "--dtype", dtype)
        assert output == record["summary_text"] + "\n"


@pytest.mark.thorough
def test_files_that_are_cut_are_named_with_the_flag(run, files, workplace, caplog):
    for name in ("long.txt", "longer.txt"):
        (workplace / name).write_text(" ".join(SENTENCES * len(name)), encoding="utf-8")
    argv = ("summarize", "long.txt", "a.txt", "longer.txt", *MODEL, "--max_new_tokens", "3")
    _, errors = run(*argv)
    note = r"hf-summ: too long for the model, which read only (\d+)% of long.txt; (\d+)% of longer.txt"
    hint = ": set --long_documents to windows to read all, or to extract to read the most important sentences\n"
    shares = re.search(note + hint, errors)
    assert 0 < int(shares[2]) < int(shares[1]) < 100
    _, errors = run(*argv, "--long_documents", "extract")
    assert re.search(f"{note}\n", errors)
    _, errors = run(*argv, "--long_documents", "windows")
    assert "too long" not in errors
    _, errors = run(*argv, "--together")
    assert re.search(r"which read only \d+% of long.txt; a.txt; longer.txt: set ", errors)
    assert not caplog.text


@pytest.mark.thorough
def test_extracts_that_are_truncated_are_noted_apart(run, files, workplace):
    texts = []
    for name, number in (("long.txt", 100), ("short.txt", 8)):
        texts.append(" ".join(f"Bridge {index} was opened in {1900 + index}." for index in range(number)))
        (workplace / name).write_text(texts[-1], encoding="utf-8")
    flags = (*MODEL, "--max_new_tokens", "3", "--extract_share", "0.5")
    _, errors = run("summarize", "long.txt", "short.txt", *flags)
    assert re.search(r"hf-summ: too long for the model, which read only \d+% of long.txt\n", errors)
    assert re.search(r"hf-summ: the extractive stage kept \d+% of short.txt\n", errors)
    write(workplace / "rows.jsonl", json_lines([{"text": text} for text in texts]))
    _, errors = run("summarize", "rows.jsonl", "--output", "out", *flags)
    assert re.search(r"2 of these rows were shortened by the extractive stage, and the model read \d+% of", errors)
    assert "1 of these rows were too long for the model, which read as many tokens as it can" in errors


@pytest.mark.thorough
def test_empty_summaries_are_noted(run, files, workplace):
    path = workplace / "model" / "generation_config.json"
    change_json(path, forced_eos_token_id=json.loads(path.read_text())["eos_token_id"], min_new_words=None)
    flags = (*MODEL, "--max_new_tokens", "1")
    output, errors = run("summarize", *files, *flags)
    assert output == "a.txt: \nb.txt: \nc.txt: \n"
    assert "the model's summary of a.txt; b.txt; c.txt is empty: set --min_new_tokens for longer ones" in errors
    write(workplace / "rows.jsonl", json_lines([{"text": text} for text in DOCUMENTS]))
    _, errors = run("summarize", "rows.jsonl", "--output", "out", *flags)
    assert "3 of these rows have an empty summary: set --min_new_tokens for longer ones" in errors


def test_unknown_words_are_replaced_if_asked(run, files):
    vocabulary = fit_processor(["a vocabulary of other words"] * 2, units="words", tags="none")
    processor = DrgdProcessor(vocabulary.tokenizer)
    config = DrgdConfig(embedding_size=6, hidden_size=8, latent_size=0)
    processor.align(config)
    model = DrgdForConditionalGeneration(config)
    model.lm_head.bias.data[processor.tokenizer.unk_token_id] = 9.0
    save("words", model, processor)
    settings = ("--model", "words", "--max_new_tokens", "4")
    output, _ = run("summarize", "a.txt", *settings, "--replace_unk")
    words = output.split()
    assert len(words) == 4
    assert set(words) <= set(re.findall(r"\w+|[^\w\s]", DOCUMENTS[0]))
    # an unknown word is left out
    output, _ = run("summarize", "a.txt", *settings, "--no-replace_unk")
    assert output == "\n"


@pytest.mark.thorough
def test_8_bits_are_chosen_by_the_flag_or_by_the_folder(run, files, workplace):
    # wide enough for layers that are quantized
    model = GdlfForConditionalGeneration.from_pretrained("model", ffn_dim=2**13, ignore_mismatched_sizes=True)
    model.save_pretrained("model")
    settings = {"model": "model", "device": "cpu", "model_kwargs": {"quantization_config": Int8Config()}}
    summarizer = pipeline("summarization", **settings)
    assert any(parameter.dtype == torch.int8 for parameter in summarizer.model.parameters())
    (record,) = summarizer(DOCUMENTS[0])
    expected = record["summary_text"] + "\n"
    output, _ = run("summarize", "a.txt", *MODEL, "--int8")
    assert output == expected
    # a model that was saved in 8 bits needs no flag
    shutil.copytree("model", "int8")
    summarizer.model.save_pretrained("int8")
    output, _ = run("summarize", "a.txt", "--model", "int8", "--device", "cpu")
    assert output == expected


@pytest.mark.thorough
@pytest.mark.parametrize("names", [[], ["-"], ["-", "b.txt"]])
def test_standard_input(run, files, expected, monkeypatch, names):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(DOCUMENTS[0].encode())))
    output, _ = run("summarize", *names, *MODEL)
    if len(names) == 2:
        assert output == f"-: {expected[0]}\nb.txt: {expected[1]}\n"
    else:
        assert output == f"{expected[0]}\n"


def test_output_file_is_replaced_in_one_step(run, files, expected, workplace):
    path = workplace / "summaries.txt"
    path.write_text("old", encoding="utf-8")
    with path.open(encoding="utf-8") as old_file:
        output, _ = run("summarize", "a.txt", *MODEL, "--output", "summaries.txt")
        assert output == ""
        assert old_file.read() == "old"
    assert path.read_text(encoding="utf-8") == f"{expected[0]}\n"
    assert sorted(file.name for file in workplace.iterdir()) == [*files, "model", "summaries.txt"]


@pytest.mark.thorough
def test_a_name_with_a_line_end_is_shown_in_one_line(run, files, expected, workplace):
    (workplace / "b\nc.txt").touch()
    output, errors = run("summarize", "a.txt", "b\nc.txt", *MODEL)
    assert output == f"a.txt: {expected[0]}\nb c.txt: \n"
    assert "hf-summ: b c.txt is blank: its summary is empty\n" in errors


@pytest.mark.thorough
@pytest.mark.parametrize("content", ["", " \n\t", "\ufeff\n"])
def test_blank_file_is_named_and_its_summary_is_empty(run, files, expected, workplace, content):
    (workplace / "b.txt").write_text(content, encoding="utf-8")
    output, errors = run("summarize", "a.txt", "b.txt", *MODEL)
    assert output == f"a.txt: {expected[0]}\nb.txt: \n"
    assert "hf-summ: b.txt is blank: its summary is empty\n" in errors
    output, _ = run("summarize", "b.txt", *MODEL)
    assert output == "\n"


@pytest.mark.thorough
def test_files_may_have_other_encodings(run, files, expected, workplace):
    (workplace / "mark.txt").write_text(DOCUMENTS[0], encoding="utf-8-sig")
    (workplace / "wide.txt").write_text(DOCUMENTS[0], encoding="utf-16")
    output, _ = run("summarize", "mark.txt", *MODEL)
    assert output == f"{expected[0]}\n"
    output, _ = run("summarize", "wide.txt", *MODEL, "--encoding", "utf-16")
    assert output == f"{expected[0]}\n"


CASES_OF_REFUSED_SUMMARIES = [
    (["a.txt", "latin.txt"], r"latin.txt is not text in utf-8 \(byte 3\): name its encoding with --encoding"),
    (["a.txt", "nowhere.txt"], "No such file or directory: 'nowhere.txt'"),
    (["model"], "Is a directory: 'model'"),
    (["a.txt", "--details"], "--details: needs --format jsonl"),
    (["a.txt", "--encoding", "utf-9"], "--encoding utf-9: unknown; name one such as utf-8"),
    (["a.txt", "--batch_size", "0"], "--batch_size 0: must be at least 1"),
    (["a.txt", "--min_new_words", "-1"], "--min_new_words -1: must be at least 0"),
    (["a.txt", "--seed", "1"], "--seed 1: needs --do_sample or --sample_latent"),
    (["a.txt", "--ngram_blocking", "beam"], "beam: needs --no_repeat_ngram_size or --no_repeat_word_ngram_size"),
    (["a.txt", "--num_beams", "1", "--length_penalty", "2"], "2.0: has no effect beside --num_beams 1: omit one"),
    (["a.txt", "--min_new_words", "9", "--max_new_tokens", "8"], "--min_new_words 9: must be at most 8, which is"),
    (["a.txt", "--int8", "--dtype", "float16"], "--dtype float16: has no effect beside --int8: omit"),
    (["a.txt", "--runtime", "onnx", "--dtype", "float16"], "--dtype float16: has no effect beside --runtime onnx"),
    (["a.txt", "--int8", "--device", "meta"], "--int8: needs --device cpu"),
    (["a.txt", "--output", "nowhere/out.txt"], "--output nowhere/out.txt: must be a file in an existing folder"),
]


@pytest.mark.thorough
@pytest.mark.parametrize(("argv", "message"), CASES_OF_REFUSED_SUMMARIES)
def test_what_cannot_work_is_told_before_the_model_is_loaded(refusal, files, workplace, argv, message):
    (workplace / "latin.txt").write_bytes("café".encode("latin-1"))
    # checking the model first would report that it does not exist
    assert re.search(message, refusal("summarize", *argv, "--model", "nowhere"))


def test_a_setting_of_another_architecture_is_refused(refusal, files):
    message = refusal("summarize", "a.txt", *MODEL, "--lm_percentile", "90")
    assert message == "--lm_percentile: the model is a gdlf, which does not support it"


@pytest.mark.parametrize("model", ["nowhere", "./nowhere", "a/b/nowhere"])
def test_a_model_that_does_not_exist_is_named(refusal, files, model):
    message = refusal("summarize", "a.txt", "--model", model)
    assert message.startswith(f"--model {model}: cannot be loaded: ")


CASES_OF_DAMAGED_MODELS = [
    (lambda folder: cut(folder / "model.safetensors"), "--model model: cannot be loaded: Error while"),
    (lambda folder: cut(folder / "config.json"), "cannot be loaded: .* 'model/config.json' is not a valid"),
    # transformers alone would ignore the file, and decode by other settings
    (lambda folder: cut(folder / "generation_config.json"), "'model/generation_config.json' is not a valid JSON"),
    (lambda folder: (folder / "config.json").unlink(), "--model model: cannot be loaded: Unrecognized model"),
    (lambda folder: change_json(folder / "config.json", ffn_dim=64), "cannot be loaded: .*ignore_mismatched_sizes"),
    (lambda folder: change_json(folder / "processor_config.json", tag_vocabulary=["NN"]), "has the tag 'NNP'"),
    (lambda folder: change_json(folder / "config.json", model_type="other"), "custom code .*trust_remote_code"),
    # transformers and tokenizers raise errors of other types for these
    (lambda folder: change_json(folder / "config.json", model_type=[]), "cannot be loaded: unhashable"),
    (lambda folder: change_json(folder / "tokenizer.json", model=3), "cannot be loaded: data did not match any"),
    (lambda folder: change_json(folder / "tokenizer_config.json", pad_token=True), "cannot be loaded: Special tok"),
    (lambda folder: change_json(folder / "config.json", num_heads=-4), "`num_heads` is -4, but must be at least 1"),
]


@pytest.mark.thorough
@pytest.mark.parametrize(("damage", "message"), CASES_OF_DAMAGED_MODELS)
def test_damaged_model_is_named_with_what_is_wrong(refusal, files, workplace, damage, message):
    damage(workplace / "model")
    assert re.search(message, refusal("summarize", "a.txt", *MODEL))
