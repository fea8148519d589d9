"""The tokenizer of a folder, without transformers: the library tokenizers reads it."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from tokenizers import Tokenizer

from hf_summ.runtimes.settings import PyTorchNeeded

_SPECIAL_TOKENS = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
# replacements by which transformers cleans up a decoded text, in this order
_CLEANUP = (
    (" .", "."),
    (" ?", "?"),
    (" !", "!"),
    (" ,", ","),
    (" ' ", "'"),
    (" n't", "n't"),
    (" 'm", "'m"),
    (" 's", "'s"),
    (" 've", "'ve"),
    (" 're", "'re"),
)


class FolderTokenizer:
    """A fast tokenizer with those methods of transformers' tokenizers that processors and summarizers use.

    Args:
        folder: a folder with `tokenizer.json` and `tokenizer_config.json`, as transformers saves them.

    Raises:
        PyTorchNeeded: there is no `tokenizer.json`, as for tokenizers that are written in Python.
        ValueError: `tokenizer.json` is broken.
        OSError: another file is missing.
    """

    def __init__(self, folder: Path):
        file = folder / "tokenizer.json"
        if not file.is_file():
            raise PyTorchNeeded(
                f"{folder} has no tokenizer.json, so its tokenizer needs PyTorch and transformers: load it with "
                '`pipeline("summarization", ..., runtime="onnx")`'
            )
        content = file.read_text(encoding="utf-8")
        config = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))
        try:
            self.backend_tokenizer = Tokenizer.from_str(content)
        except Exception as error:
            # tokenizers raises no other type
            raise ValueError(f"{file}: cannot be read: {error}") from error
        self.backend_tokenizer.no_padding()
        self.backend_tokenizer.no_truncation()
        for name in _SPECIAL_TOKENS:
            setattr(self, name, _text_of_token(config.get(name)))
        extra_tokens = config.get("extra_special_tokens") or config.get("additional_special_tokens") or []
        if isinstance(extra_tokens, dict):
            extra_tokens = extra_tokens.values()
        self.extra_special_tokens = [_text_of_token(token) for token in extra_tokens]
        self.model_max_length = config.get("model_max_length", int(1e30))
        self.model_input_names = config.get("model_input_names", ["input_ids", "attention_mask"])
        self.split_special_tokens = config.get("split_special_tokens", False)
        self.clean_up_tokenization_spaces = config.get("clean_up_tokenization_spaces", False)

    def __getattr__(self, name: str) -> int | None:
        """The id of a special token, such as `eos_token_id`; None if the tokenizer has no such token."""
        if not name.endswith("_token_id"):
            raise AttributeError(name)
        token = getattr(self, name.removesuffix("_id"))
        if token is None:
            return None
        return self.convert_tokens_to_ids(token)

    def __len__(self) -> int:
        return self.backend_tokenizer.get_vocab_size()

    @property
    def all_special_ids(self) -> list[int]:
        """The ids of all special tokens."""
        tokens = [getattr(self, name) for name in _SPECIAL_TOKENS]
        tokens.extend(self.extra_special_tokens)
        special_ids = []
        # a token may have several names
        for token in dict.fromkeys(tokens):
            token_id = None if token is None else self.convert_tokens_to_ids(token)
            if token_id is not None:
                special_ids.append(token_id)
        return special_ids

    def get_vocab(self) -> dict[str, int]:
        """The id of each token."""
        return self.backend_tokenizer.get_vocab()

    def convert_tokens_to_ids(self, token: str) -> int | None:
        """The id of a token. An unknown token has the id of `unk_token`, or None if there is no such token."""
        token_id = self.backend_tokenizer.token_to_id(token)
        if token_id is None and token != self.unk_token:
            return self.unk_token_id
        return token_id

    def convert_ids_to_tokens(self, ids: int | Sequence[int]) -> str | list[str | None] | None:
        """The token of an id, or a list with the tokens of several ids; None for an id without a token."""
        if isinstance(ids, int):
            return self.backend_tokenizer.id_to_token(ids)
        return [self.backend_tokenizer.id_to_token(token_id) for token_id in ids]

    def convert_tokens_to_string(self, tokens: list[str]) -> str:
        """The text of tokens."""
        decoder = self.backend_tokenizer.decoder
        if decoder is None:
            return " ".join(tokens)
        return decoder.decode(tokens)

    def __call__(
        self,
        text: str | Sequence[str],
        add_special_tokens: bool = True,
        return_offsets_mapping: bool = False,
        return_special_tokens_mask: bool = False,
        split_special_tokens: bool | None = None,
        **settings: object,
    ) -> dict[str, list]:
        """Encode a text or several texts.

        Args:
            text: the text, or the texts.
            add_special_tokens: whether to add tokens such as the end token.
            return_offsets_mapping, return_special_tokens_mask: whether to return these fields too.
            split_special_tokens: whether special tokens in the text are encoded as other words; by default the folder's
                setting.
            settings: other arguments of transformers' tokenizers, without effect here.

        Returns:
            `input_ids`, `attention_mask` and further fields: for one text a list of values per token, for several
            texts one such list per text.
        """
        backend = self.backend_tokenizer
        if split_special_tokens is None:
            split_special_tokens = self.split_special_tokens
        backend.encode_special_tokens = split_special_tokens
        is_single = isinstance(text, str)
        texts = [text] if is_single else list(text)
        encodings = backend.encode_batch(texts, add_special_tokens=add_special_tokens)
        fields: dict[str, list] = {
            "input_ids": [encoding.ids for encoding in encodings],
            "attention_mask": [encoding.attention_mask for encoding in encodings],
        }
        if return_offsets_mapping:
            fields["offset_mapping"] = [encoding.offsets for encoding in encodings]
        if return_special_tokens_mask:
            fields["special_tokens_mask"] = [encoding.special_tokens_mask for encoding in encodings]
        if is_single:
            return {name: rows[0] for name, rows in fields.items()}
        return fields

    def batch_decode(
        self,
        sequences: Iterable[Iterable],
        skip_special_tokens: bool = False,
        clean_up_tokenization_spaces: bool | None = None,
    ) -> list[str]:
        """The texts of rows of ids.

        Args:
            sequences: lists, arrays or tensors of ids.
            skip_special_tokens: whether to leave out special tokens.
            clean_up_tokenization_spaces: whether to remove spaces before punctuation; by default the folder's setting.
        """
        rows = []
        for sequence in sequences:
            rows.append([int(token_id) for token_id in sequence])
        texts = self.backend_tokenizer.decode_batch(rows, skip_special_tokens)
        if clean_up_tokenization_spaces is None:
            clean_up_tokenization_spaces = self.clean_up_tokenization_spaces
        # transformers does not clean up after byte-pair encodings
        is_byte_pair = type(self.backend_tokenizer.model).__name__ == "BPE"
        if not clean_up_tokenization_spaces or is_byte_pair:
            return texts
        return [self.clean_up_tokenization(text) for text in texts]

    def clean_up_tokenization(self, text: str) -> str:
        """A decoded text without spaces before punctuation and endings such as "n't"."""
        for before, after in _CLEANUP:
            text = text.replace(before, after)
        return text


def _text_of_token(token: str | Mapping[str, str] | None) -> str | None:
    """The text of a special token, which a configuration spells as a text or as the settings of the token."""
    if isinstance(token, Mapping):
        return token["content"]
    return token
