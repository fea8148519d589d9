"""`hf-summ convert mass`, of a checkpoint that the test writes as fairseq does and computes by itself."""

import argparse
import math
import re
from pathlib import Path

import pytest
import torch
from torch.nn.functional import embedding, gelu, layer_norm, linear, multi_head_attention_forward
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

from hf_summ.checkpoints.mass import convert_mass

PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "bridge", "open", "##ed", "'", "s", "it", "."]
WIDTH, HEADS, INNER, LAYERS, POSITIONS = 12, 3, 20, 2, 16


def mass_weights():
    """Random weights by fairseq's names, with queries, keys and values in one matrix."""
    generator = torch.Generator().manual_seed(0)
    shapes: dict[str, tuple[int, ...]] = {}
    attentions = {"encoder": ["self_attn"], "decoder": ["self_attn", "encoder_attn"]}
    for side in ("encoder", "decoder"):
        # positions are counted from 1, behind the padding
        shapes[f"{side}.embed_positions.weight"] = (POSITIONS + 1, WIDTH)
        shapes[f"{side}.emb_layer_norm"] = (WIDTH,)
        for layer in range(LAYERS):
            name = f"{side}.layers.{layer}"
            for attention in attentions[side]:
                shapes[f"{name}.{attention}.in_proj_weight"] = (3 * WIDTH, WIDTH)
                shapes[f"{name}.{attention}.in_proj_bias"] = (3 * WIDTH,)
                shapes[f"{name}.{attention}.out_proj.weight"] = (WIDTH, WIDTH)
                shapes[f"{name}.{attention}.out_proj.bias"] = (WIDTH,)
                shapes[f"{name}.{attention}_layer_norm"] = (WIDTH,)
            shapes[f"{name}.fc1.weight"] = (INNER, WIDTH)
            shapes[f"{name}.fc1.bias"] = (INNER,)
            shapes[f"{name}.fc2.weight"] = (WIDTH, INNER)
            shapes[f"{name}.fc2.bias"] = (WIDTH,)
            shapes[f"{name}.final_layer_norm"] = (WIDTH,)
    weights = {}
    for name, shape in shapes.items():
        if name.endswith("norm"):
            weights[f"{name}.weight"] = 0.3 * torch.randn(shape, generator=generator)
            weights[f"{name}.bias"] = 0.3 * torch.randn(shape, generator=generator)
        else:
            weights[name] = 0.3 * torch.randn(shape, generator=generator)
    embedding_matrix = torch.randn(len(PIECES), WIDTH, generator=generator)
    for side in ("encoder", "decoder"):
        weights[f"{side}.version"] = torch.tensor([3.0])
        weights[f"{side}.embed_tokens.weight"] = embedding_matrix
    return weights


def in_parts(weights):
    """The same weights, with a matrix each for queries, keys and values."""
    parts = {}
    for name, value in weights.items():
        attention, _, kind = name.rpartition(".in_proj_")
        if not attention:
            parts[name] = value
            continue
        for letter, part in zip("qkv", value.chunk(3), strict=True):
            parts[f"{attention}.{letter}_proj.{kind}"] = part
    return parts


def mass_logits(weights, source, target, heads):
    """What MASS computes for one text."""

    def norm(name, x):
        return layer_norm(x, (WIDTH,), weights[f"{name}.weight"], weights[f"{name}.bias"])

    def attend(name, x, memory, mask=None):
        outputs, _ = multi_head_attention_forward(
            query=x,
            key=memory,
            value=memory,
            embed_dim_to_check=WIDTH,
            num_heads=heads,
            in_proj_weight=weights[f"{name}.in_proj_weight"],
            in_proj_bias=weights[f"{name}.in_proj_bias"],
            bias_k=None,
            bias_v=None,
            add_zero_attn=False,
            dropout_p=0.0,
            out_proj_weight=weights[f"{name}.out_proj.weight"],
            out_proj_bias=weights[f"{name}.out_proj.bias"],
            training=False,
            need_weights=False,
            attn_mask=mask,
        )
        return outputs

    def read(side, ids):
        words = math.sqrt(WIDTH) * embedding(ids, weights[f"{side}.embed_tokens.weight"])
        positions = weights[f"{side}.embed_positions.weight"][1 : len(ids) + 1]
        return norm(f"{side}.emb_layer_norm", words + positions)

    def feed_forward(name, x):
        inner = gelu(linear(x, weights[f"{name}.fc1.weight"], weights[f"{name}.fc1.bias"]))
        outer = linear(inner, weights[f"{name}.fc2.weight"], weights[f"{name}.fc2.bias"])
        return norm(f"{name}.final_layer_norm", x + outer)

    memory = read("encoder", source)
    for layer in range(LAYERS):
        name = f"encoder.layers.{layer}"
        memory = norm(f"{name}.self_attn_layer_norm", memory + attend(f"{name}.self_attn", memory, memory))
        memory = feed_forward(name, memory)
    x = read("decoder", target)
    future = torch.ones(len(target), len(target)).triu(1).bool()
    for layer in range(LAYERS):
        name = f"decoder.layers.{layer}"
        x = norm(f"{name}.self_attn_layer_norm", x + attend(f"{name}.self_attn", x, x, future))
        x = norm(f"{name}.encoder_attn_layer_norm", x + attend(f"{name}.encoder_attn", x, memory))
        x = feed_forward(name, x)
    return linear(x, weights["decoder.embed_tokens.weight"])


@pytest.fixture
def files(tmp_path):
    """Writes a checkpoint and its dict.txt; returns their names."""

    def write(content, pieces=PIECES):
        torch.save(content, tmp_path / "mass.pt")
        lines = "".join(f"{piece} {100 - number}\n" for number, piece in enumerate(pieces))
        (tmp_path / "dict.txt").write_text(lines, encoding="utf-8")
        return str(tmp_path / "mass.pt"), str(tmp_path / "dict.txt")

    return write


@pytest.mark.parametrize("form", ["bare", "beside its args", "in parts"])
def test_converted_mass_computes_the_same(run, files, tmp_path, form):
    weights = mass_weights()
    settings = {"encoder_attention_heads": HEADS, "decoder_attention_heads": HEADS, "activation_fn": "gelu"}
    checkpoint = {"model": weights, "args": argparse.Namespace(**settings), "optimizer_history": [{"num_updates": 3}]}
    if form == "bare":
        checkpoint = weights
    elif form == "in parts":
        checkpoint["model"] = in_parts(weights)
    names = files(checkpoint)
    output, _ = run("convert", "mass", *names, "--output", str(tmp_path / "bart"))
    assert output == f"{tmp_path / 'bart'}: 2 + 2 layers of 12, 13 word pieces\n"
    model = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "bart")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "bart")
    source = tokenizer("It's the bridge.", add_special_tokens=False)["input_ids"]
    assert tokenizer.convert_ids_to_tokens(source) == ["it", "'", "s", "the", "bridge", "."]
    ids = tokenizer("it's opened.", add_special_tokens=False)["input_ids"]
    assert tokenizer.decode(ids) == "it's opened."
    source, target = torch.tensor([*source, 3]), torch.tensor([3, 5, 6, 7, 8])
    # without settings, heads are 64 wide, as in all published checkpoints: this model has one such head
    heads = 1 if form == "bare" else HEADS
    expected = mass_logits(weights, source, target, heads)
    logits = model(input_ids=source[None], decoder_input_ids=target[None]).logits[0]
    torch.testing.assert_close(logits, expected, rtol=1e-4, atol=1e-4)
    assert (model.config.eos_token_id, model.config.decoder_start_token_id, model.config.pad_token_id) == (3, 3, 0)


class Evil:
    """An object that runs code when it is unpickled."""

    def __reduce__(self):
        return (print, ("ran",))


# what a file has instead of the weights, and the message
CASES_OF_OTHER_CHECKPOINTS = [
    (lambda weights: {"encoder.embed_tokens.weight": torch.zeros(3, 4)}, "MASS: it lacks model.encoder"),
    (lambda weights: {**weights, "decoder.embed_out": torch.zeros(13, 12)}, "has separate embeddings"),
    (lambda weights: {**weights, "encoder.gate.weight": torch.zeros(2)}, "checkpoint of MASS: model.encoder.gate"),
    (
        lambda weights: {**weights, "decoder.layers.1.fc2.bias": torch.zeros(7)},
        r"MASS: model.decoder.layers.1.fc2.bias has shape \[7\], but must have \[12\]",
    ),
    (lambda weights: [1, 2], "is not a checkpoint of fairseq: it must contain weights by name"),
    (lambda weights: {**weights, "code": Evil()}, "cannot be read as weights only: it is damaged, or contains"),
]


IDS_OF_OTHER_CHECKPOINTS = ["of a BERT", "other output", "more", "other shape", "a list", "code"]


@pytest.mark.parametrize(("change", "message"), CASES_OF_OTHER_CHECKPOINTS, ids=IDS_OF_OTHER_CHECKPOINTS)
def test_other_checkpoints_are_refused(files, tmp_path, change, message, capsys):
    names = files(change(mass_weights()))
    with pytest.raises(ValueError, match=message):
        convert_mass(*names, tmp_path / "bart")
    assert "ran" not in capsys.readouterr().out
    assert not (tmp_path / "bart").exists()


def test_files_that_do_not_fit_are_named(files, tmp_path, run):
    checkpoint, dictionary = files(mass_weights(), PIECES[:-1])
    message = f"{re.escape(checkpoint)} has 13 pieces, but {re.escape(dictionary)} lists 12$"
    with pytest.raises(ValueError, match=message):
        convert_mass(checkpoint, dictionary, tmp_path / "bart")
    Path(checkpoint).write_bytes(Path(checkpoint).read_bytes()[:500])
    with pytest.raises(ValueError, match="cannot be read as weights only"):
        convert_mass(checkpoint, dictionary, tmp_path / "bart")
    for line in ("the", "[PAD] 3"):
        Path(dictionary).write_text(f"[PAD] 3\n{line}\n", encoding="utf-8")
        with pytest.raises(ValueError, match="line 2: must be a new piece and its count"):
            convert_mass(checkpoint, dictionary, tmp_path / "bart")


def test_special_pieces_that_are_missing_come_last(files):
    from hf_summ.checkpoints.mass import read_dictionary

    _, dictionary = files({}, ["the", "[PAD]"])
    assert read_dictionary(dictionary) == ["the", "[PAD]", "[CLS]", "[SEP]", "[UNK]"]
