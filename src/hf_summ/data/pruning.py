"""A pre-trained BERT without the subwords that a corpus does not need."""

import json
import os
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from transformers import AutoModel, AutoTokenizer

from hf_summ.common.files import moved_into_place
from hf_summ.common.messages import progress_bar
from hf_summ.data.vocabulary import checked_texts
from hf_summ.models.pretrained_parts import check_encoder, read_config, read_model


def prune_bert(
    documents_and_summaries: Iterable[str], name: str, output: str | os.PathLike, min_frequency: int = 2
) -> tuple[int, int]:
    """Write a BERT and its tokenizer with only the subwords that the texts need, as a folder for `bert_name`.

    These are special tokens, subwords that occur at least `min_frequency` times, and the single characters of all that
    occur. Where a subword is removed, its word is split into shorter ones. Words without such a subword are split as
    before, and none becomes unknown. The vectors that remain are unchanged.

    Args:
        documents_and_summaries: as for `fit_vocabulary`.
        name: checkpoint of BERT with a WordPiece tokenizer; a folder or a Hub name.
        output: the folder, new or empty.

    Returns:
        The number of subwords written, and the checkpoint's.

    Raises:
        ValueError: the checkpoint cannot be read or has another type of tokenizer, or a corpus without text.
        FileExistsError: `output` is not empty.
    """
    output = Path(output)
    if output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise FileExistsError(f"{output} is not empty: name a new folder for the pruned BERT")
    config = read_config("prune_bert", name)
    check_encoder("prune_bert", name, config)
    tokenizer = AutoTokenizer.from_pretrained(name)
    backend = tokenizer.backend_tokenizer
    # files may have those of the texts that the checkpoint was trained on
    backend.no_truncation()
    backend.no_padding()
    state = json.loads(backend.to_str())
    if state["model"]["type"] != "WordPiece":
        raise ValueError(
            f"`prune_bert` is {name!r:.80}, but must have a WordPiece tokenizer, not {state['model']['type']}"
        )
    counts: Counter[int] = Counter()
    for text in progress_bar(checked_texts(documents_and_summaries), "Counting subwords", unit=" texts"):
        counts.update(backend.encode(text, add_special_tokens=False).ids)
    vocabulary = tokenizer.get_vocab()
    pieces = _needed(counts, vocabulary, state, min_frequency)
    _renumber(state, pieces)

    model = read_model(AutoModel, "prune_bert", name, config, unused=("pooler",))
    ids = [vocabulary[piece] for piece in pieces]
    words = model.get_input_embeddings().weight
    words.data = words.data[ids]
    special = {key: value for key, value in config.to_dict().items() if key.endswith("_token_id")}
    model.config.update({key: ids.index(value) if value in ids else None for key, value in special.items()})
    model.config.vocab_size = len(ids)
    output.parent.mkdir(parents=True, exist_ok=True)
    with moved_into_place(output) as folder:
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        (folder / "tokenizer.json").write_text(json.dumps(state, ensure_ascii=False), encoding="utf-8")
    return len(pieces), len(vocabulary)


def _needed(counts: Counter[int], vocabulary: dict[str, int], state: dict, min_frequency: int) -> list[str]:
    """The subwords that are needed, in their order."""
    prefix = state["model"]["continuing_subword_prefix"]
    needed = {token["content"] for token in state["added_tokens"]}
    for piece, number in vocabulary.items():
        if number not in counts:
            continue
        start = prefix if piece.startswith(prefix) and piece != prefix else ""
        first, *following = piece.removeprefix(start)
        characters = {start + first, *(prefix + character for character in following)}
        needed |= characters & vocabulary.keys()
        # without all of its characters, a word could become unknown
        if counts[number] >= min_frequency or not characters <= vocabulary.keys():
            needed.add(piece)
    return sorted(needed, key=vocabulary.__getitem__)


def _renumber(state: dict, pieces: list[str]) -> None:
    """Change a tokenizer's state to that of these subwords, numbered in their order."""
    ids = {piece: number for number, piece in enumerate(pieces)}
    state["model"]["vocab"] = {piece: ids[piece] for piece in state["model"]["vocab"] if piece in ids}
    for token in state["added_tokens"]:
        token["id"] = ids[token["content"]]
    post_processor = state["post_processor"] or {}
    for token in post_processor.get("special_tokens", {}).values():
        token["ids"] = [ids[piece] for piece in token["tokens"]]
    # of BERT's own kind of post-processor, which is no template
    for name in post_processor.keys() & {"cls", "sep"}:
        piece, _ = post_processor[name]
        post_processor[name] = [piece, ids[piece]]
