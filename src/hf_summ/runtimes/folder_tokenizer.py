"""The tokenizer of a folder, read by tokenizers alone."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

_NAMED = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
# what transformers deletes and joins to clean up, in this order
_CLEANED = (
    *((f" {mark}", mark) for mark in ".?!,"),
    (" ' ", "'"),
    *((f" {ending}", ending) for ending in ("n't", "'m", "'s", "'ve", "'re")),
)


class FolderTokenizer:
    """A fast tokenizer with those methods of transformers' that processors and summarizers use.

    Args:
        folder: a folder with `tokenizer.json` and `tokenizer_config.json`, as transformers saves them.
    """

    def __init__(self, folder: Path):
        content = (folder / "tokenizer.json").read_text(encoding="utf-8")
        config = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))
        try:
            self.backend_tokenizer = Tokenizer.from_str(content)
        except Exception as error:
            # tokenizers raises no other type
            raise ValueError(f"{folder / 'tokenizer.json'}: cannot be read: {error}") from error
        self.backend_tokenizer.no_padding()
        self.backend_tokenizer.no_truncation()
        for name in _NAMED:
            setattr(self, name, _content(config.get(name)))
        further = config.get("extra_special_tokens") or config.get("additional_special_tokens") or []
        if isinstance(further, dict):
            further = further.values()
        self.extra_special_tokens = [_content(token) for token in further]
        self.model_max_length = config.get("model_max_length", int(1e30))
        self.model_input_names = config.get("model_input_names", ["input_ids", "attention_mask"])
        self.split_special_tokens = config.get("split_special_tokens", False)
        self.clean_up_tokenization_spaces = config.get("clean_up_tokenization_spaces", False)

    def __getattr__(self, name: str) -> int | None:
        if not name.endswith("_token_id"):
            raise AttributeError(name)
        token = getattr(self, name.removesuffix("_id"))
        return None if token is None else self.convert_tokens_to_ids(token)

    def __len__(self) -> int:
        return self.backend_tokenizer.get_vocab_size()

    @property
    def all_special_ids(self) -> list[int]:
        """The ids of all special tokens."""
        tokens = [getattr(self, name) for name in _NAMED] + self.extra_special_tokens
        ids = [self.convert_tokens_to_ids(token) for token in dict.fromkeys(tokens) if token is not None]
        return [token for token in ids if token is not None]

    def get_vocab(self) -> dict[str, int]:
        """Token -> id."""
        return self.backend_tokenizer.get_vocab()

    def convert_tokens_to_ids(self, token: str) -> Any:
        """The id of a token, or that of unknown ones, or None."""
        number = self.backend_tokenizer.token_to_id(token)
        return self.unk_token_id if number is None and token != self.unk_token else number

    def convert_ids_to_tokens(self, ids: int | Sequence[int]) -> Any:
        """The token of an id, or the tokens of several; None for an id without a token."""
        token = self.backend_tokenizer.id_to_token
        return token(ids) if isinstance(ids, int) else list(map(token, ids))

    def convert_tokens_to_string(self, tokens: list[str]) -> str:
        """The text of tokens."""
        decoder = self.backend_tokenizer.decoder
        return " ".join(tokens) if decoder is None else decoder.decode(tokens)

    def __call__(
        self,
        text: str | Sequence[str],
        add_special_tokens: bool = True,
        return_offsets_mapping: bool = False,
        return_special_tokens_mask: bool = False,
        split_special_tokens: bool | None = None,
        **settings: Any,
    ) -> dict[str, Any]:
        """The fields of a text, or of several.

        Args:
            settings: others of transformers' tokenizers, without effect here.
        """
        backend = self.backend_tokenizer
        splits = self.split_special_tokens if split_special_tokens is None else split_special_tokens
        backend.encode_special_tokens = splits
        texts = [text] if isinstance(text, str) else list(text)
        rows = backend.encode_batch(texts, add_special_tokens=add_special_tokens)
        fields = {"input_ids": [row.ids for row in rows], "attention_mask": [row.attention_mask for row in rows]}
        if return_offsets_mapping:
            fields["offset_mapping"] = [row.offsets for row in rows]
        if return_special_tokens_mask:
            fields["special_tokens_mask"] = [row.special_tokens_mask for row in rows]
        return {name: rows[0] for name, rows in fields.items()} if isinstance(text, str) else fields

    def batch_decode(
        self, sequences: Any, skip_special_tokens: bool = False, clean_up_tokenization_spaces: bool | None = None
    ) -> list[str]:
        """The texts of rows of ids."""
        rows = [[int(token) for token in row] for row in sequences]
        texts = self.backend_tokenizer.decode_batch(rows, skip_special_tokens)
        cleans = clean_up_tokenization_spaces
        cleans = self.clean_up_tokenization_spaces if cleans is None else cleans
        # transformers does not clean up after byte-pair encodings
        return list(map(_cleaned, texts)) if cleans and type(self.backend_tokenizer.model).__name__ != "BPE" else texts


def _content(token: Any) -> str | None:
    """A special token's text."""
    return token["content"] if isinstance(token, dict) else token


def _cleaned(text: str) -> str:
    for before, after in _CLEANED:
        text = text.replace(before, after)
    return text
