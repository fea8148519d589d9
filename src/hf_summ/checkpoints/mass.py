"""Conversion of other programs' checkpoints to transformers' format."""

import argparse
import os
import re
from collections.abc import Mapping
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers
from transformers import BartConfig, BartForConditionalGeneration, PreTrainedTokenizerFast

from hf_summ.common.files import moved_into_place
from hf_summ.common.messages import one_line

# MASS appends those that its dictionary lacks, in this order
_SPECIAL = ("[CLS]", "[PAD]", "[SEP]", "[UNK]")
# BART's positions begin at the third row of their table
_BART_OFFSET = 2
# the head width of every published MASS
_HEAD_WIDTH = 64


def convert_mass(checkpoint: str | os.PathLike, dictionary: str | os.PathLike, folder: str | os.PathLike) -> None:
    """Convert a MASS of fairseq to a BART that computes the same, and write it with its tokenizer.

    Args:
        checkpoint: the .pt file: weights by name, at the top level or under `model`, beside `args`.
        dictionary: its dict.txt, with a WordPiece and its count in each line.
        folder: an empty or new folder.
    """
    pieces = read_dictionary(dictionary)
    weights, settings = read_fairseq(checkpoint)
    model = bart_of_mass(weights, settings, pieces, str(checkpoint), str(dictionary))
    with moved_into_place(folder) as temporary:
        model.save_pretrained(temporary)
        word_piece_tokenizer(pieces, model.config.max_position_embeddings).save_pretrained(temporary)


def read_dictionary(path: str | os.PathLike) -> list[str]:
    """The pieces of a dict.txt in order, with the special ones; a ValueError for a malformed or repeated line."""
    pieces: dict[str, int] = {}
    for number, line in enumerate(Path(path).read_text(encoding="utf-8").splitlines(), start=1):
        piece, *count = line.split() or [""]
        if len(count) != 1 or piece in pieces:
            raise ValueError(f"{path}, line {number}: must be a new piece and its count, but is {line!r:.60}")
        pieces[piece] = len(pieces)
    for piece in _SPECIAL:
        pieces.setdefault(piece, len(pieces))
    return list(pieces)


def read_fairseq(path: str | os.PathLike) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """The weights of a fairseq checkpoint, and its training settings, if it has them; a ValueError if it is none."""
    try:
        with torch.serialization.safe_globals([argparse.Namespace]):
            loaded = torch.load(path, map_location="cpu", weights_only=True)
    except (UnpicklingError, RuntimeError, EOFError, ValueError, KeyError) as error:
        # torch's own message of a pickle advises to run its code
        reason = "" if isinstance(error, UnpicklingError) else f" ({one_line(error):.80})"
        raise ValueError(
            f"{path} cannot be read as weights only{reason}: it is damaged, or contains code, which is never run"
        ) from error
    weights, settings = loaded, {}
    if isinstance(loaded, Mapping) and "model" in loaded:
        weights, settings = loaded["model"], vars(loaded.get("args") or argparse.Namespace())
    if not isinstance(weights, Mapping) or not all(isinstance(value, torch.Tensor) for value in weights.values()):
        raise ValueError(f"{path} is not a checkpoint of fairseq: it must contain weights by name")
    return dict(weights), settings


def bart_of_mass(
    weights: Mapping[str, torch.Tensor], settings: Mapping[str, Any], pieces: list[str], source: str, dictionary: str
) -> BartForConditionalGeneration:
    """The BART that computes the same as a MASS with fairseq's weights and settings; a ValueError if there is none.

    `source` and `dictionary` name the files in error messages.
    """
    renamed = {f"model.{new}": value for name, value in weights.items() for new, value in _renamed(name, value)}
    names = ("embed_tokens.weight", "embed_positions.weight", "layernorm_embedding.weight", "layers.0.fc1.weight")
    for name in (f"model.{side}.{name}" for side in ("encoder", "decoder") for name in names):
        if name not in renamed:
            raise ValueError(f"{source} is not a checkpoint of MASS: it lacks {name}")
    embedding = renamed["model.encoder.embed_tokens.weight"]
    if len(embedding) != len(pieces):
        raise ValueError(f"{source} has {len(embedding)} pieces, but {dictionary} {len(pieces)}")
    for name in ("model.decoder.embed_tokens.weight", "model.decoder.embed_out"):
        if not torch.equal(renamed.pop(name, embedding), embedding):
            raise ValueError(f"{source} has separate embeddings for the decoder ({name}), but BART shares them")
    padding = pieces.index("[PAD]")
    for side in ("encoder", "decoder"):
        name = f"model.{side}.embed_positions.weight"
        # fairseq counts positions from the padding's id + 1
        positions = renamed[name][padding + 1 :]
        renamed[name] = torch.cat((positions.new_zeros(_BART_OFFSET, positions.shape[1]), positions))
    model = BartForConditionalGeneration(_config(renamed, settings, pieces))
    renamed["model.shared.weight"] = embedding
    missing, unknown = model.load_state_dict(renamed, strict=False)
    missing = [name for name in missing if not name.endswith(("embed_tokens.weight", "lm_head.weight", "logits_bias"))]
    for problem in (*(f"it lacks {name}" for name in missing), *(f"{name} is unknown" for name in unknown)):
        raise ValueError(f"{source} is not a checkpoint of MASS: {problem}")
    return model


def _renamed(name: str, value: torch.Tensor) -> list[tuple[str, torch.Tensor]]:
    """A weight under BART's name; three for joint query, key and value projections; none for a version number."""
    if name.endswith(".version"):
        return []
    name = name.replace("emb_layer_norm", "layernorm_embedding")
    stacked = re.fullmatch(r"(.*)\.in_proj_(weight|bias)", name)
    if stacked is None:
        return [(name, value)]
    owner, suffix = stacked.groups()
    return [(f"{owner}.{letter}_proj.{suffix}", chunk) for letter, chunk in zip("qkv", value.chunk(3), strict=True)]


def _config(renamed: Mapping[str, torch.Tensor], settings: Mapping[str, Any], pieces: list[str]) -> BartConfig:
    width = renamed["model.encoder.embed_tokens.weight"].shape[1]
    sizes: dict[str, Any] = {}
    for side in ("encoder", "decoder"):
        layers = {int(name.split(".")[3]) for name in renamed if name.startswith(f"model.{side}.layers.")}
        sizes[f"{side}_layers"] = len(layers)
        sizes[f"{side}_ffn_dim"] = renamed[f"model.{side}.layers.0.fc1.weight"].shape[0]
        sizes[f"{side}_attention_heads"] = settings.get(f"{side}_attention_heads", max(width // _HEAD_WIDTH, 1))
    end = pieces.index("[SEP]")
    return BartConfig(
        vocab_size=len(pieces),
        d_model=width,
        **sizes,
        max_position_embeddings=len(renamed["model.encoder.embed_positions.weight"]) - _BART_OFFSET,
        activation_function=settings.get("activation_fn", "gelu"),
        activation_dropout=0.1,
        attention_dropout=0.1,
        scale_embedding=True,
        pad_token_id=pieces.index("[PAD]"),
        bos_token_id=None,
        eos_token_id=end,
        # texts end with it, and summaries are written after it
        decoder_start_token_id=end,
        forced_eos_token_id=None,
    )


def word_piece_tokenizer(pieces: list[str], max_length: int) -> PreTrainedTokenizerFast:
    """BERT's tokenizer with these pieces; as in MASS, texts have an end token but no start token."""
    words = Tokenizer(models.WordPiece({piece: number for number, piece in enumerate(pieces)}, unk_token="[UNK]"))
    is_cased = any(piece != piece.lower() for piece in pieces if not piece.startswith("["))
    words.normalizer = normalizers.BertNormalizer(lowercase=not is_cased)
    words.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    words.decoder = decoders.WordPiece()
    special = {"pad_token": "[PAD]", "unk_token": "[UNK]", "eos_token": "[SEP]", "sep_token": "[SEP]"}
    # "it's" would be decoded as "it ' s"
    settings = {"model_max_length": max_length, "clean_up_tokenization_spaces": True}
    return PreTrainedTokenizerFast(tokenizer_object=words, **special, **settings)
