"""Models of transformers in ONNX Runtime: the summaries are those of transformers' own `generate()`."""

import json
import random
import sys
from pathlib import Path

import pytest
import torch
from transformers import (
    AutoConfig,
    AutoModelForSeq2SeqLM,
    BlenderbotSmallTokenizer,
    LEDConfig,
    LEDForConditionalGeneration,
    PreTrainedModel,
    ProphetNetConfig,
    ProphetNetForConditionalGeneration,
    pipeline,
)

import hf_summ
from hf_summ.checkpoints.adapters import AutoModelForSummarization
from hf_summ.cli import main
from hf_summ.runtimes import OnnxSummarizer, onnx_layers
from hf_summ.runtimes.folders import export, weights_file
from tests.conftest import SENTENCES, save
from tests.models.test_hub import run
from tests.runtimes.conftest import copied_in_8_bits

# exporting takes ten seconds a family
pytestmark = pytest.mark.thorough

# without ties, as models with random weights would repeat a token
SIZES = {"vocab_size": 400, "d_model": 24, "tie_word_embeddings": False}
BART = {**SIZES, "encoder_layers": 2, "encoder_ffn_dim": 32, "decoder_layers": 2, "decoder_ffn_dim": 32}
BART |= {"encoder_attention_heads": 4, "decoder_attention_heads": 4, "max_position_embeddings": 80, "init_std": 0.25}
T5 = {**SIZES, "d_kv": 6, "d_ff": 32, "num_layers": 2, "num_heads": 4, "initializer_factor": 1.0}
FAMILIES = {
    "bart": BART,
    "t5": T5,
    "mbart": BART | {"scale_embedding": True, "forced_eos_token_id": None},
    "pegasus": BART,
    "marian": BART | {"share_encoder_decoder_embeddings": True},
    "blenderbot": BART,
    "blenderbot-small": BART,
    "m2m_100": BART,
    "plbart": BART,
    "mt5": T5 | {"feed_forward_proj": "gated-gelu"},
    "umt5": T5 | {"feed_forward_proj": "gated-gelu"},
    "longt5": T5 | {"local_radius": 4, "encoder_attention_type": "local"},
    # the block's size is a power of two, as its inverse is summed up
    "longt5 global": T5 | {"local_radius": 4, "global_block_size": 4, "encoder_attention_type": "transient-global"},
}
DOCUMENTS = [" ".join(SENTENCES[:2]), SENTENCES[3], SENTENCES[0]]


def build(family: str, tokenizer) -> PreTrainedModel:
    special = {"pad_token_id": tokenizer.pad_token_id, "eos_token_id": tokenizer.eos_token_id}
    special |= {"bos_token_id": tokenizer.bos_token_id, "decoder_start_token_id": tokenizer.bos_token_id}
    settings = {**FAMILIES[family], **special, "vocab_size": len(tokenizer)}
    return AutoModelForSeq2SeqLM.from_config(AutoConfig.for_model(family.partition(" ")[0], **settings)).eval()


@pytest.fixture(scope="module", params=[*FAMILIES])
def checkpoint(request, tiny_tokenizer, tmp_path_factory) -> Path:
    """A saved model with random weights, with its graphs in the folder `onnx`."""
    folder = tmp_path_factory.mktemp("checkpoint")
    torch.manual_seed(0)
    save(folder, build(request.param, tiny_tokenizer), tiny_tokenizer)
    with pytest.MonkeyPatch.context() as patch:
        if request.param in ("mbart", "mt5"):
            patch.setattr(onnx_layers, "_WIDE_HEAD", 1)
        assert main(["export", str(folder), "--to", "onnx", "--output", str(folder / "onnx")]) == 0
    return folder


def random_batch(draw: random.Random, vocab_size: int, padding: int) -> dict[str, torch.Tensor]:
    """Eight documents of up to 30 random tokens, with padding."""
    lengths = [draw.randint(1, 30) for _ in range(8)]
    longest = max(lengths)
    mask = torch.arange(longest) < torch.tensor(lengths)[:, None]
    ids = torch.zeros(len(lengths), longest, dtype=torch.long)
    for row in range(len(lengths)):
        for column in range(longest):
            ids[row, column] = draw.randrange(4, vocab_size)
    return {"input_ids": ids.where(mask, padding), "attention_mask": mask.long()}


def random_settings(draw: random.Random) -> dict:
    beams = draw.choice([1, 2, 4, 5])
    settings = {
        "num_beams": beams,
        "max_new_tokens": draw.randint(2, 14),
        "no_repeat_ngram_size": draw.choice([0, 1, 2, 3]),
        "min_new_tokens": draw.choice([0, 1, 6]),
        "length_penalty": draw.choice([-1.0, 0.0, 0.6, 1.0, 2.0]) if beams > 1 else None,
        "early_stopping": draw.choice([True, False, "never"]) if beams > 1 else None,
        "num_return_sequences": draw.choice([1, beams]),
        "forced_bos_token_id": draw.choice([None, 7]),
        "forced_eos_token_id": draw.choice([None, 2]),
        "bad_words_ids": draw.choice([None, [[5], [11, 12], [30, 31, 32]]]),
        # scored in PyTorch
        "repetition_penalty": draw.choice([None, None, None, 1.3]),
    }
    return {name: value for name, value in settings.items() if value is not None}


@pytest.mark.thorough
def test_texts_are_those_of_transformers(checkpoint):
    reference = AutoModelForSeq2SeqLM.from_pretrained(checkpoint)
    exported = AutoModelForSummarization.from_pretrained(checkpoint / "onnx")
    draw = random.Random(0)
    for _ in range(25):
        inputs = random_batch(draw, reference.config.vocab_size, reference.config.pad_token_id)
        settings = random_settings(draw)
        expected = reference.generate(**inputs, **settings).tolist()
        assert exported.generate(**inputs, **settings).tolist() == expected, settings


@pytest.mark.thorough
def test_summaries_without_torch_are_those_of_the_pipeline(checkpoint):
    # Blenderbot sets this, which needs PyTorch
    decoding = {"encoder_no_repeat_ngram_size": 0}
    reference = pipeline("summarization", model=str(checkpoint), **decoding)
    onnx_summarizer = OnnxSummarizer(checkpoint, **decoding)
    documents = [*DOCUMENTS, "", [SENTENCES[0], SENTENCES[1]], " ".join(SENTENCES) * 3]
    # transformers drops an entry that is the end alone
    words = {"bad_words_ids": [[reference.model.generation_config.eos_token_id], [7]]}
    for settings in ({}, {"num_beams": 1, "repetition_penalty": 1.3}, {"source_prefix": "summarize: "}, words):
        settings |= {"max_new_tokens": 12, "batch_size": 4, "return_details": True}
        assert onnx_summarizer(documents, **settings) == reference(documents, **settings)


@pytest.mark.thorough
def test_scores_in_8_bits_are_near_those_of_transformers(checkpoint, tmp_path):
    reference = AutoModelForSeq2SeqLM.from_pretrained(checkpoint)
    inputs = random_batch(random.Random(0), reference.config.vocab_size, reference.config.pad_token_id)
    inputs["decoder_input_ids"] = torch.randint(4, reference.config.vocab_size, (8, 5))
    with torch.no_grad():
        expected = reference(**inputs).logits
    int8 = copied_in_8_bits(checkpoint / "onnx", tmp_path / "int8")
    for folder, tolerance in ((checkpoint / "onnx", 1e-4), (int8, 0.3)):
        scored = AutoModelForSummarization.from_pretrained(folder)(**inputs).logits
        assert (scored - expected).abs().max() / expected.std() < tolerance


@pytest.mark.thorough
def test_pipeline_and_command_line_take_the_folder_or_the_checkpoint(checkpoint, tmp_path, capsys):
    settings = {"num_beams": 4, "max_new_tokens": 10, "no_repeat_ngram_size": 2}
    expected = pipeline("summarization", model=str(checkpoint), device="cpu")(DOCUMENTS, **settings)
    for folder, runtime in ((checkpoint, {"runtime": "onnx"}), (checkpoint / "onnx", {})):
        summarizer = pipeline("summarization", model=str(folder), **runtime)
        assert type(summarizer.model).__name__.startswith("Onnx")
        assert summarizer(DOCUMENTS, batch_size=2, **settings) == expected
    (tmp_path / "document.txt").write_text(DOCUMENTS[0], encoding="utf-8")
    flags = [f"--{name}={value}" for name, value in settings.items()]
    for folder in (checkpoint, checkpoint / "onnx"):
        command = ["summarize", str(tmp_path / "document.txt"), "--model", str(folder), "--runtime=onnx", *flags]
        assert main(command) == 0
        assert capsys.readouterr().out.strip() == expected[0]["summary_text"]


# newer configurations have no `decoder_start_token_id`
@pytest.mark.parametrize("family", ["plbart", "mbart"])
def test_graphs_begin_with_the_token_with_which_transformers_begins(family, tiny_tokenizer, tmp_path):
    torch.manual_seed(0)
    model = build(family, tiny_tokenizer)
    del model.config.decoder_start_token_id
    model.generation_config.decoder_start_token_id = None
    save(tmp_path, model, tiny_tokenizer)
    assert main(["export", str(tmp_path), "--to", "onnx", "--output", str(tmp_path / "onnx")]) == 0
    for settings in ({"num_beams": 2, "max_new_tokens": 5}, {"whole_sentences": True, "max_new_tokens": 60}):
        expected = pipeline("summarization", model=str(tmp_path))(DOCUMENTS, **settings)
        for summarizer in (pipeline("summarization", model=str(tmp_path), runtime="onnx"), OnnxSummarizer(tmp_path)):
            assert summarizer(DOCUMENTS, **settings) == expected


def test_a_tokenizer_without_tokenizer_json_is_read_by_transformers(tmp_path, capsys):
    words = ["__null__", "__start__", "__end__", "__unk__", *" ".join(SENTENCES).lower().split()]
    vocabulary = {word: index for index, word in enumerate(dict.fromkeys(words))}
    (tmp_path / "vocab.json").write_text(json.dumps(vocabulary), encoding="utf-8")
    (tmp_path / "merges.txt").write_text("#version: 0.2\n", encoding="utf-8")
    tokenizer = BlenderbotSmallTokenizer(str(tmp_path / "vocab.json"), str(tmp_path / "merges.txt"))
    folder = tmp_path / "model"
    torch.manual_seed(0)
    save(folder, build("blenderbot-small", tokenizer), tokenizer)
    assert main(["export", str(folder), "--to", "onnx", "--output", str(folder / "onnx")]) == 0
    assert not (folder / "onnx" / "tokenizer.json").exists()
    settings = {"num_beams": 2, "max_new_tokens": 8}
    expected = pipeline("summarization", model=str(folder), device="cpu")(DOCUMENTS[0], **settings)
    assert expected[0]["summary_text"]
    for exported, runtime in ((folder, "onnx"), (folder / "onnx", None)):
        assert hf_summ.summarizer(exported, runtime=runtime)(DOCUMENTS[0], **settings) == expected
    (tmp_path / "document.txt").write_text(DOCUMENTS[0], encoding="utf-8")
    capsys.readouterr()
    flags = [f"--{name}={value}" for name, value in settings.items()]
    assert main(["summarize", str(tmp_path / "document.txt"), "--model", str(folder), "--runtime=onnx", *flags]) == 0
    assert capsys.readouterr().out.strip() == expected[0]["summary_text"]


@pytest.mark.parametrize("checkpoint", ["bart"], indirect=True)
def test_graphs_of_a_repository_are_those_of_the_revision(checkpoint, two_revisions):
    expected = OnnxSummarizer(two_revisions(checkpoint))(DOCUMENTS[0])
    assert OnnxSummarizer("org/x")(DOCUMENTS[0]) != expected
    graphs = pipeline("summarization", model="org/x", revision="v1", runtime="onnx")
    assert graphs(DOCUMENTS[0]) == expected


PUSH_AND_LOAD = """
import json, sys
from huggingface_hub import HfApi
from transformers import pipeline
import hf_summ
from hf_summ.runtimes.folders import find_exported
HfApi().create_repo("org/graphs")
HfApi().upload_folder(repo_id="org/graphs", folder_path=sys.argv[1])
assert (find_exported("org/graphs") / "write.onnx").is_file()
print("RESULT", json.dumps(pipeline("summarization", model="org/graphs")(sys.argv[2], num_beams=2, max_new_tokens=9)))
"""


@pytest.mark.parametrize("checkpoint", ["bart"], indirect=True)
def test_graphs_on_the_hub_are_loaded_by_name(checkpoint, local_hub, tmp_path):
    expected = pipeline("summarization", model=str(checkpoint))(DOCUMENTS[0], num_beams=2, max_new_tokens=9)
    environment = local_hub.environment(tmp_path / "home")
    # outside the checkpoint, graphs are complete
    graphs = tmp_path / "graphs"
    assert main(["export", str(checkpoint), "--to", "onnx", "--output", str(graphs)]) == 0
    assert weights_file(graphs) is None
    assert weights_file(checkpoint / "onnx") == checkpoint / "model.safetensors"
    (result,) = run(PUSH_AND_LOAD, str(graphs), DOCUMENTS[0], environment=environment, folder=tmp_path)
    assert result == expected


LED = LEDConfig(**BART, attention_window=4)
PROPHET_NET = ProphetNetConfig(vocab_size=40, hidden_size=16, num_encoder_layers=1)
CASES_WITHOUT_GRAPHS = [(LEDForConditionalGeneration, LED), (ProphetNetForConditionalGeneration, PROPHET_NET)]


@pytest.mark.parametrize(("architecture", "config"), CASES_WITHOUT_GRAPHS, ids=["led", "prophetnet"])
def test_architectures_without_graphs_are_named(architecture, config, tmp_path, monkeypatch):
    # also where the extra is missing
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    with pytest.raises(ValueError, match=f"is a {config.model_type}, which cannot be exported: name one of gdlf, "):
        export(architecture(config), None, tmp_path / "onnx", int8=False)
