"""Conversion of a MASS checkpoint of fairseq to a BART of transformers that computes the same."""

import argparse
import os
import re
from collections.abc import Mapping
from pathlib import Path
from pickle import UnpicklingError

import torch
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers
from transformers import BartConfig, BartForConditionalGeneration, PreTrainedTokenizerFast

from hf_summ.common.files import moved_into_place
from hf_summ.common.messages import one_line

# MASS appends the special pieces that its dictionary lacks, in this order.
_SPECIAL = ("[CLS]", "[PAD]", "[SEP]", "[UNK]")
# BART's table of positions has two unused rows before the row of the first position.
_BART_OFFSET = 2
# Every published MASS has heads of this width.
_HEAD_WIDTH = 64
# The encoder and the decoder of every MASS have these weights.
_NEEDED_WEIGHTS = ("embed_tokens.weight", "embed_positions.weight", "layernorm_embedding.weight", "layers.0.fc1.weight")


def convert_mass(checkpoint: str | os.PathLike, dictionary: str | os.PathLike, folder: str | os.PathLike) -> None:
    """Convert a MASS of fairseq to a BART that computes the same, and write it with its tokenizer.

    Args:
        checkpoint: the .pt file. It has the weights by name, or a mapping whose `model` has the weights by name and
            whose `args` has the training settings.
        dictionary: the file dict.txt of the MASS, with a WordPiece and its count in each line.
        folder: an empty or new folder.

    Raises:
        ValueError: a file is damaged or is not of a MASS, or a BART cannot compute the same.
    """
    pieces = read_dictionary(dictionary)
    weights, settings = read_fairseq(checkpoint)
    model = bart_of_mass(weights, settings, pieces, str(checkpoint), str(dictionary))
    with moved_into_place(folder) as temporary:
        model.save_pretrained(temporary)
        word_piece_tokenizer(pieces, model.config.max_position_embeddings).save_pretrained(temporary)


def read_dictionary(path: str | os.PathLike) -> list[str]:
    """The word pieces of a dict.txt in order. Special pieces that the file lacks are added at the end.

    Raises:
        ValueError: a line is malformed, or repeats a piece.
    """
    # The keys of a dictionary are in the order of their insertion, and are looked up fast.
    pieces: dict[str, None] = {}
    for number, line in enumerate(Path(path).read_text(encoding="utf-8").splitlines(), start=1):
        fields = line.split()
        if len(fields) != 2 or fields[0] in pieces:
            raise ValueError(f"{path}, line {number}: must be a new piece and its count, but is {line!r:.60}")
        pieces[fields[0]] = None
    for piece in _SPECIAL:
        pieces.setdefault(piece)
    return list(pieces)


def read_fairseq(path: str | os.PathLike) -> tuple[dict[str, torch.Tensor], dict[str, object]]:
    """Read a checkpoint of fairseq.

    Returns:
        The weights by name, and the training settings, which are empty if the checkpoint has none.

    Raises:
        ValueError: the file is not such a checkpoint, is damaged, or contains code.
    """
    try:
        with torch.serialization.safe_globals([argparse.Namespace]):
            loaded = torch.load(path, map_location="cpu", weights_only=True)
    except (UnpicklingError, RuntimeError, EOFError, ValueError, KeyError) as error:
        reason = ""
        # The message of torch for a pickle advises to run its code.
        if not isinstance(error, UnpicklingError):
            reason = f" ({one_line(error):.80})"
        raise ValueError(
            f"{path} cannot be read as weights only{reason}: it is damaged, or contains code, which is never run"
        ) from error
    weights = loaded
    settings = {}
    if isinstance(loaded, Mapping) and "model" in loaded:
        weights = loaded["model"]
        if loaded.get("args"):
            settings = vars(loaded["args"])
    has_weights = isinstance(weights, Mapping) and all(isinstance(value, torch.Tensor) for value in weights.values())
    if not has_weights:
        raise ValueError(f"{path} is not a checkpoint of fairseq: it must contain weights by name")
    return dict(weights), settings


def bart_of_mass(
    weights: Mapping[str, torch.Tensor], settings: Mapping[str, object], pieces: list[str], source: str, dictionary: str
) -> BartForConditionalGeneration:
    """Make the BART that computes the same as a MASS.

    Args:
        weights: the weights of the MASS by fairseq's names.
        settings: the training settings of the MASS, which may be empty.
        pieces: the word pieces of the MASS in the order of their ids.
        source: the name of the file of weights, for error messages.
        dictionary: the name of the file of word pieces, for error messages.

    Raises:
        ValueError: the weights are not those of a MASS with these word pieces, or no BART can compute the same.
    """
    bart_weights = {}
    for name, value in weights.items():
        for bart_name, bart_value in _renamed(name, value):
            bart_weights[f"model.{bart_name}"] = bart_value
    for side in ("encoder", "decoder"):
        for name in _NEEDED_WEIGHTS:
            full_name = f"model.{side}.{name}"
            if full_name not in bart_weights:
                raise ValueError(f"{source} is not a checkpoint of MASS: it lacks {full_name}")
    embedding = bart_weights["model.encoder.embed_tokens.weight"]
    if len(embedding) != len(pieces):
        raise ValueError(f"{source} has {len(embedding)} pieces, but {dictionary} lists {len(pieces)}")
    # A BART has one embedding for the encoder, the decoder and the output. Not every MASS has a weight of the output.
    for name in ("model.decoder.embed_tokens.weight", "model.decoder.embed_out"):
        if name not in bart_weights:
            continue
        if not torch.equal(bart_weights[name], embedding):
            raise ValueError(f"{source} has separate embeddings for the decoder ({name}), but BART shares them")
        del bart_weights[name]
    padding = pieces.index("[PAD]")
    for side in ("encoder", "decoder"):
        name = f"model.{side}.embed_positions.weight"
        # The positions of fairseq begin at the row after the padding's id.
        positions = bart_weights[name][padding + 1 :]
        unused_rows = positions.new_zeros(_BART_OFFSET, positions.shape[1])
        bart_weights[name] = torch.cat((unused_rows, positions))
    config = _config(bart_weights, settings, pieces)
    model = BartForConditionalGeneration(config)
    bart_weights["model.shared.weight"] = embedding
    _check_shapes(bart_weights, model, source)
    missing, unknown = model.load_state_dict(bart_weights, strict=False)
    for name in missing:
        # These weights need no value: the first two are `model.shared.weight` by other names, and the bias of BART's
        # logits stays 0, as MASS has none.
        if not name.endswith(("embed_tokens.weight", "lm_head.weight", "logits_bias")):
            raise ValueError(f"{source} is not a checkpoint of MASS: it lacks {name}")
    if unknown:
        raise ValueError(f"{source} is not a checkpoint of MASS: {unknown[0]} is unknown")
    return model


def _check_shapes(bart_weights: Mapping[str, torch.Tensor], model: BartForConditionalGeneration, source: str) -> None:
    """Raise a ValueError if a weight has another shape than in the model, whose sizes follow from some of the weights.

    Args:
        bart_weights: the weights by BART's names.
        model: the model for the weights.
        source: the name of the file of weights, for the message.
    """
    shapes = {name: list(weight.shape) for name, weight in model.state_dict().items()}
    for name, weight in bart_weights.items():
        shape = list(weight.shape)
        # A name that the model lacks is reported when the weights are loaded.
        if name in shapes and shape != shapes[name]:
            raise ValueError(
                f"{source} is not a checkpoint of MASS: {name} has shape {shape}, but must have {shapes[name]}"
            )


def _renamed(name: str, value: torch.Tensor) -> list[tuple[str, torch.Tensor]]:
    """A weight of fairseq under the names of BART.

    A joint projection of queries, keys and values becomes three weights. A version number is left out: the list is
    then empty.
    """
    if name.endswith(".version"):
        return []
    name = name.replace("emb_layer_norm", "layernorm_embedding")
    match = re.fullmatch(r"(.*)\.in_proj_(weight|bias)", name)
    if match is None:
        return [(name, value)]
    attention, kind = match.groups()
    queries, keys, values = value.chunk(3)
    return [
        (f"{attention}.q_proj.{kind}", queries),
        (f"{attention}.k_proj.{kind}", keys),
        (f"{attention}.v_proj.{kind}", values),
    ]


def _config(bart_weights: Mapping[str, torch.Tensor], settings: Mapping[str, object], pieces: list[str]) -> BartConfig:
    """The configuration of the BART with these weights.

    Sizes follow from the shapes of the weights. The numbers of heads and the activation are the training settings, or
    the values of published MASS checkpoints where a setting is missing.

    Args:
        bart_weights: the weights by BART's names.
        settings: the training settings of the MASS, which may be empty.
        pieces: the word pieces in the order of their ids.
    """
    width = bart_weights["model.encoder.embed_tokens.weight"].shape[1]
    sizes = {}
    for side in ("encoder", "decoder"):
        prefix = f"model.{side}.layers."
        layers = set()
        for name in bart_weights:
            if name.startswith(prefix):
                layers.add(name.removeprefix(prefix).partition(".")[0])
        sizes[f"{side}_layers"] = len(layers)
        sizes[f"{side}_ffn_dim"] = bart_weights[f"{prefix}0.fc1.weight"].shape[0]
        default_heads = max(width // _HEAD_WIDTH, 1)
        sizes[f"{side}_attention_heads"] = settings.get(f"{side}_attention_heads", default_heads)
    end = pieces.index("[SEP]")
    return BartConfig(
        vocab_size=len(pieces),
        d_model=width,
        **sizes,
        max_position_embeddings=len(bart_weights["model.encoder.embed_positions.weight"]) - _BART_OFFSET,
        activation_function=settings.get("activation_fn", "gelu"),
        activation_dropout=0.1,
        attention_dropout=0.1,
        scale_embedding=True,
        pad_token_id=pieces.index("[PAD]"),
        bos_token_id=None,
        eos_token_id=end,
        # Texts end with this token, and summaries are generated after it.
        decoder_start_token_id=end,
        forced_eos_token_id=None,
    )


def word_piece_tokenizer(pieces: list[str], max_length: int) -> PreTrainedTokenizerFast:
    """BERT's tokenizer with these word pieces, for texts of at most `max_length` tokens.

    As in MASS, the end token is `[SEP]`, and there is no start token. The tokenizer does not add the end token to
    texts, because the processors of hf_summ add it.
    """
    ids = {piece: piece_id for piece_id, piece in enumerate(pieces)}
    tokenizer = Tokenizer(models.WordPiece(ids, unk_token="[UNK]"))
    # Texts are lowercased unless some piece has a capital letter.
    is_cased = False
    for piece in pieces:
        is_special = piece.startswith("[")
        if not is_special and piece != piece.lower():
            is_cased = True
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=not is_cased)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    special = {"pad_token": "[PAD]", "unk_token": "[UNK]", "eos_token": "[SEP]", "sep_token": "[SEP]"}
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        **special,
        model_max_length=max_length,
        # Without this, "it's" would be decoded as "it ' s".
        clean_up_tokenization_spaces=True,
    )
