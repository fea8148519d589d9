"""The origin of each summary word in a model that copies, and the attention to the source."""

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, NamedTuple

import torch

from hf_summ.common.files import shared_name
from hf_summ.common.pages import render_page
from hf_summ.models.layers_copying import source_columns
from hf_summ.models.text_documents import FIRST_POINTER, WordTable, word_table
from hf_summ.models.text_processing_recurrent import replace_unknown
from hf_summ.runtimes.any_model import prefix_of, with_prefix

# most source words listed for a word of the summary and of the source, and their least probability or weight
_ORIGINS, _LINKS, _LEAST = 8, 4, 0.005
# measures by which source words can be shaded: name, label, description on the page
_SHADES = (
    ("copied", "copied", "the probability that the summary copied the word at least once"),
    ("centrality", "centrality", "the word's centrality in the model, a share of 1"),
    ("phrase_value", "key phrases", "the value of the key phrase that the word is in"),
    (
        "attention_of_summary",
        "attention of the summary",
        "the share of attention that the word received while the summary was written, in the last layer",
    ),
    (
        "attention_of_source",
        "attention of the source",
        "the share of attention that the word received from the source itself, in the last layer",
    ),
)
# number of truncated characters that are shown
_UNREAD = 2000


class Word(NamedTuple):
    """A word: the positions of its first character and after its last, and the indices of its subwords."""

    start: int
    end: int
    subwords: list[int]


def grouped(ids: Sequence[int], table: WordTable) -> list[list[int]]:
    """The indices of the ids of each word; words are those that the decoding limits count.

    A token of space alone belongs to the next word.
    """
    if not ids:
        return []
    opened = table.words_opened(ids)
    is_space = [not starts and not table.texts[token] for token, starts in zip(ids, opened, strict=True)]
    # the first of several spaces opens the next word
    is_first = [opened[index] or is_space[index] for index in range(len(ids))]
    starts = [index for index in range(len(ids)) if not index or (is_first[index] and not is_space[index - 1])]
    return [list(range(*span)) for span in pairwise([*starts, len(ids)])]


def words_of_source(text: str, ids: Sequence[int], offsets: Sequence[tuple[int, int]], table: WordTable) -> list[Word]:
    """The words of a tokenized text, in order, without overlap.

    Args:
        offsets: for each id, the positions of its first character and after its last.
    """
    words, end = [], 0
    for subwords in grouped(ids, table):
        # tokens that share a character of several bytes overlap, and some include the space before them
        start = max(min(offsets[index][0] for index in subwords), end)
        last = max(offsets[index][1] for index in subwords)
        word = text[start:last].strip()
        if word:
            start = text.index(word, start)
            end = start + len(word)
            words.append(Word(start, end, subwords))
    return words


def words_of_summary(text: str, pieces: Sequence[str]) -> list[tuple[int, int]]:
    """The spans of the pieces in a text with the same characters in the same order, but with other spaces."""
    spans, end = [], 0
    for piece in pieces:
        start = None
        for character in "".join(piece.split()):
            while text[end : end + 1].isspace():
                end += 1
            if text[end : end + 1] != character:
                raise ValueError(f"{piece!r} is not next in {text[end:]!r}")
            start = end if start is None else start
            end += 1
        spans.append((end if start is None else start, end))
    return spans


@dataclass(frozen=True)
class SourceWord:
    """A word of the source.

    Attributes:
        document: number of its document.
        start, end: positions of its first character and after its last.
        is_read: whether it fit into the model's input; others were truncated.
        values: its measures by name; see `Explanation`.
        links: the words to which it attends most, as pairs of number and weight: edges of the encoder's graph of
            self-attention (Xu et al. 2020, Figure 3), in the last layer, as the mean over heads; if it has one.
    """

    document: int
    start: int
    end: int
    text: str
    is_read: bool
    values: dict[str, float] = field(default_factory=dict)
    links: list[tuple[int, float]] = field(default_factory=list)


@dataclass(frozen=True)
class SummaryWord:
    """A word of the summary. For several subwords, numbers are means, and the probability is their product.

    Attributes:
        start, end: positions of its first character and after its last.
        probability: the model's probability of the word, generated or copied.
        gate: the probability of copying any word here.
        copied: the probability that this word was copied.
        origins: the most probable source words, as pairs of number and probability that the word was copied from there.
        is_novel: whether the word does not occur in the source, read or not.
    """

    start: int
    end: int
    text: str
    probability: float
    gate: float
    copied: float
    origins: list[tuple[int, float]]
    is_novel: bool


@dataclass(frozen=True)
class Explanation:
    """The words of one example, where they were copied from, and the attention to them.

    Attributes:
        model: name of the checkpoint.
        documents: cleaned texts.
        summary: text.
        source_words: words of all documents in order. Those that were read have the values `copied`, the probability
            that the summary copied the word at least once; `attention_of_summary`, its share of the attention to the
            source (last layer, mean over heads and over the summary); and, if the model has them, `centrality`;
            `phrase_value`, that of its key phrase; and `attention_of_source`, its share of the encoder's self-attention
            (last layer, mean over heads and queries).
        summary_words: in order.
    """

    model: str
    model_type: str
    documents: list[str]
    summary: str
    source_words: list[SourceWord]
    summary_words: list[SummaryWord]

    @property
    def copied_share(self) -> float:
        """The expected share of the summary's words that were copied."""
        return sum(word.copied for word in self.summary_words) / max(len(self.summary_words), 1)


def explain(
    model,
    processor,
    document: str | Sequence[str],
    summary: str | None = None,
    phrases: Mapping[str, float] | None = None,
    source_prefix: str | None = None,
    word_tags: Any = None,
    **generation: Any,
) -> Explanation:
    """Summarize an example, and find the origins of the summary's words.

    All numbers are those of one forward pass over the finished summary.

    Args:
        model: a model that copies.
        processor: its processor.
        document: a text, or several documents of one example.
        summary: a text to explain instead of the model's summary.
        phrases: key phrases and their values, for models that read them; None to extract them.
        source_prefix: text before the document; by default the config's.
        word_tags: the tags of the words, for GDLF; by default its tagger's.
        generation: arguments of `generate()`.

    Raises:
        ValueError: the model does not copy, or a text is blank.
    """
    _check(model, document, summary)
    given = {"phrases": phrases, "word_tags": word_tags}
    source = {name: [value] for name, value in given.items() if value is not None}
    prefix = prefix_of(model.config) if source_prefix is None else source_prefix
    document = with_prefix(document if isinstance(document, str) else list(document), prefix)
    examples = document if isinstance(document, str) else [document]
    inputs = processor(examples, return_tensors="pt", **source).to(model.device)
    with torch.inference_mode(), _eager(model):
        if summary is None:
            replaces = generation.pop("replace_unk", getattr(model.generation_config, "replace_unk", None))
            # a checkpoint's settings may request several summaries, or more outputs than tokens
            settings = {"tokenizer": processor.tokenizer, **generation, "num_return_sequences": 1}
            if replaces is not None:
                settings["replace_unk"] = False
            ids = model.generate(**inputs, **{**settings, "return_dict_in_generate": False})
        else:
            replaces = False
            labels = processor(text_target=summary)["labels"]
            ids = torch.tensor([[model.config.decoder_start_token_id, *labels]], device=model.device)
        columns = model.columns(ids, inputs["input_ids"])
        outputs = model(**inputs, decoder_input_ids=columns[:, :-1], output_attentions=True, use_cache=False)
    trace = _Trace(model, processor, document, inputs, outputs, columns)
    return trace.explanation(bool(replaces))


def _check(model, document: str | Sequence[str], summary: str | None) -> None:
    model_type = model.config.model_type
    if getattr(model.config, "copy", False) is not True:
        raise ValueError(
            f"the model is a {model_type} that does not copy, so the origins of its words cannot be shown: name one of "
            "hf_summ's architectures with `copy` set"
        )
    texts = [document] if isinstance(document, str) else list(document)
    if not any(text.strip() for text in texts):
        raise ValueError("the text is blank: there is nothing to summarize and explain")
    if summary is not None and not summary.strip():
        raise ValueError("the summary is blank: there is nothing to explain")


@contextmanager
def _eager(model) -> Generator[None]:
    """A context in which the model returns attention weights, which fused attention does not compute."""
    before, was_training = model.config._attn_implementation, model.training
    model.set_attn_implementation("eager")
    model.eval()
    try:
        yield
    finally:
        model.set_attn_implementation(before)
        model.train(was_training)


class _Trace:
    """The numbers of one example for each subword, on the CPU in float64.

    Args:
        columns: (1, 1 + T), the columns of the scores of the start token and of the summary's subwords.
    """

    def __init__(self, model, processor, document, inputs, outputs, columns: torch.Tensor):
        self.model, self.processor = model, processor
        size, source_ids = model.config.vocab_size, inputs["input_ids"].cpu()
        self.table = word_table(processor.tokenizer, size, source_ids.shape[1] if model.unknown_ids else 0)
        columns = columns.cpu()
        # of pointers and words
        self.ids = torch.where(columns < size, columns, FIRST_POINTER + columns - size)
        self.written = columns[0, 1:].tolist()
        self.source_ids = model.known_ids(source_ids)
        self.texts, self.row, self.encoded = processor.read_source(document, processor.max_source_length)
        targets = columns[:, 1:, None]
        self.log_probs = outputs.logits.cpu().double().gather(-1, targets)[0, :, 0]
        self.gates = outputs.copy_gates[0].cpu().double()
        self.copy_attention = outputs.copy_attentions[0].cpu().double()
        # p(copied from i | word) = c a_i [x_i = w] / p(w)
        copied_columns, _ = source_columns(source_ids, size, model.unknown_ids)
        is_word = copied_columns[0][None] == targets[0]
        shares = self.gates[:, None] * self.copy_attention * is_word
        self.origins = shares / self.log_probs.exp().clamp(min=torch.finfo(torch.float64).tiny)[:, None]
        # the self-attention of the encoder's last layer
        graphs = outputs.encoder_attentions
        self.graph = graphs[-1][0].cpu().double().mean(0) if graphs else None
        self.values = self._values(inputs, outputs)

    def _values(self, inputs, outputs) -> dict[str, torch.Tensor]:
        """The measures of each source position, (S,), by name."""
        is_text = torch.tensor([token not in self.processor.tokenizer.all_special_ids for token in self.written])
        copied = 1.0 - (1.0 - self.origins[is_text].clamp(max=1.0)).prod(0)
        values = {"copied": copied}
        if getattr(outputs, "centrality", None) is not None:
            values["centrality"] = outputs.centrality[0].cpu().double()
        if "phrase_values" in inputs:
            values["phrase_value"] = _phrase_values(inputs, len(copied))
        attention = outputs.cross_attentions[-1][0].cpu().double().mean(0)
        values["attention_of_summary"] = attention[is_text].mean(0) if is_text.any() else 0.0 * copied
        if self.graph is not None:
            values["attention_of_source"] = self.graph.mean(0)
        return values

    def explanation(self, replaces_unknown: bool) -> Explanation:
        source_words, of_position = self._source_words()
        vocabulary = {self._normalized(word.text) for word in source_words}
        summary, words = self._summary(replaces_unknown)
        return Explanation(
            model=shared_name(self.model.name_or_path),
            model_type=self.model.config.model_type,
            documents=self.texts,
            summary=summary,
            source_words=source_words,
            summary_words=[self._summary_word(summary, word, of_position, vocabulary) for word in words],
        )

    def _source_words(self) -> tuple[list[SourceWord], dict[int, int]]:
        """The words of all documents, and source position -> number of its word."""
        words, of_position, spans = [], {}, []
        known_ids = [self.model.known_ids(torch.tensor(ids)).tolist() for ids in self.encoded["input_ids"]]
        documents = zip(self.texts, known_ids, self.encoded["offset_mapping"], self.row.spans, strict=True)
        for document, (text, ids, offsets, (first, length)) in enumerate(documents):
            for start, end, subwords in words_of_source(text, ids, offsets, self.table):
                positions = [first + index for index in subwords if index < length]
                of_position |= dict.fromkeys(positions, len(words))
                values = {name: _of_word(name, of[positions]) for name, of in self.values.items()} if positions else {}
                words.append(SourceWord(document, start, end, text[start:end], bool(positions), values))
                spans.append(positions)
        if self.graph is not None:
            words = [
                replace(word, links=self._likely(self.graph[positions].mean(0), of_position, _LINKS))
                if positions
                else word
                for word, positions in zip(words, spans, strict=True)
            ]
        return words, of_position

    @staticmethod
    def _likely(shares: torch.Tensor, of_position: Mapping[int, int], most: int) -> list[tuple[int, float]]:
        """The words with the largest shares, from those of positions (S,), as pairs of number and share."""
        words: dict[int, float] = {}
        for position in shares.nonzero()[:, 0].tolist():
            if position in of_position:
                number = of_position[position]
                words[number] = words.get(number, 0.0) + float(shares[position])
        likely = sorted(words.items(), key=lambda item: (-item[1], item[0]))[:most]
        return [item for item in likely if item[1] >= _LEAST]

    def _summary(self, replaces_unknown: bool) -> tuple[str, list[Word]]:
        """The summary's text and its words, with unknown ones replaced on request."""
        tokenizer, unknown = self.processor.tokenizer, self.processor.tokenizer.unk_token_id
        special = set(tokenizer.all_special_ids) - {unknown}
        ids = self.ids[0, 1:].tolist()
        if replaces_unknown:
            read = (tensor.numpy(force=True) for tensor in (self.ids, self.copy_attention[None], self.source_ids))
            ids = replace_unknown(*read, unknown, sorted(special))[0, 1:].tolist()
        groups = [
            [index for index in group if self.written[index] not in special]
            for group in grouped(self.written, self.table)
        ]
        groups = [group for group in groups if group]
        rows = [[ids[index] for index in group] for group in groups]
        rows.append([token for row in rows for token in row])
        *pieces, text = self.processor.batch_decode(rows, documents=[self.texts])
        try:
            spans = words_of_summary(text, pieces)
        except ValueError:
            # this tokenizer's decoder joins words differently
            text = " ".join(pieces)
            spans = words_of_summary(text, pieces)
        words = [Word(*span, group) for span, group in zip(spans, groups, strict=True)]
        return text, [word for word in words if word.start < word.end]

    def _summary_word(
        self, summary: str, word: Word, of_position: Mapping[int, int], vocabulary: set[str]
    ) -> SummaryWord:
        text = summary[word.start : word.end]
        from_positions = self.origins[word.subwords].mean(0)
        return SummaryWord(
            start=word.start,
            end=word.end,
            text=text,
            probability=float(self.log_probs[word.subwords].sum().exp()),
            gate=float(self.gates[word.subwords].mean()),
            copied=min(float(from_positions.sum()), 1.0),
            origins=self._likely(from_positions, of_position, _ORIGINS),
            is_novel=self._normalized(text) not in vocabulary,
        )

    def _normalized(self, word: str) -> str:
        """A word after the tokenizer's normalization, which may drop accents, and without case."""
        normalizer = self.processor.tokenizer.backend_tokenizer.normalizer
        return (word if normalizer is None else normalizer.normalize_str(word)).strip().casefold()


def _of_word(name: str, of_subwords: torch.Tensor) -> float:
    """A word's value from those of its subwords: the sum of shares, and otherwise the strongest value."""
    if name in ("copied", "phrase_value"):
        return float(of_subwords[of_subwords.abs().argmax()])
    return float(of_subwords.sum())


def _phrase_values(inputs: Mapping[str, torch.Tensor], length: int) -> torch.Tensor:
    """The value of each position's key phrase, the strongest of overlapping ones; 0 outside of phrases."""
    values = torch.zeros(length, dtype=torch.float64)
    fields = (inputs[name][0].tolist() for name in ("phrase_starts", "phrase_ends", "phrase_values"))
    for start, end, value in sorted(zip(*fields, strict=True), key=lambda phrase: abs(phrase[2])):
        values[start:end] = value
    return values


_AnyWord = SourceWord | SummaryWord


def as_page(explanation: Explanation) -> str:
    """The explanation as a page of HTML, in which all texts are escaped."""
    read = {number: word for number, word in enumerate(explanation.source_words) if word.is_read}
    measures = {name for word in read.values() for name in word.values}
    return render_page(
        "hf_summ.inspection",
        explanation=explanation,
        read=list(read.values()),
        shades=[shade for shade in _SHADES if shade[0] in measures],
        has_links=any(word.links for word in read.values()),
        summary=_in_text(explanation.summary, explanation.summary_words),
        documents=list(_documents(explanation)),
        index_read={number: index for index, number in enumerate(read)},
        number=_number,
    )


def _in_text(text: str, words: Sequence[_AnyWord]) -> list[tuple[str, _AnyWord | None]]:
    """A text as pairs of a word and the text before it; the last pair is the remaining text and None."""
    pairs: list[tuple[str, _AnyWord | None]] = []
    end = 0
    for word in words:
        pairs.append((text[end : word.start], word))
        end = word.end
    return [*pairs, (text[end:], None)]


def _documents(explanation: Explanation) -> Iterator[tuple[list, str, int]]:
    """For each document: the text that was read, as `_in_text`; the truncated text, shortened; its number of words."""
    for number, text in enumerate(explanation.documents):
        words = [word for word in explanation.source_words if word.document == number]
        read = [word for word in words if word.is_read]
        unread = len(words) - len(read)
        end = (read[-1].end if read else 0) if unread else len(text)
        truncated = text[end:] if len(text) - end <= _UNREAD else f"{text[end : end + _UNREAD]} …"
        yield _in_text(text[:end], read), truncated, unread


def _number(value: float, digits: int = 4) -> str:
    return f"{round(value, digits):g}"
