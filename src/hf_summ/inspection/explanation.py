"""The origin of each summary word in a model that copies, and the attention to the source.

The origins of a summary word are the source words from which it was probably copied. The links of a source word are the
source words to which it attends most. Both name a source word by its index among the words of all documents.
"""

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from hf_summ.common.files import shared_name
from hf_summ.inspection.words import Word, group_by_word, words_of_source, words_of_summary
from hf_summ.models.layers_copying import source_columns
from hf_summ.models.text_documents import FIRST_POINTER, word_table
from hf_summ.models.text_processing_recurrent import replace_unknown
from hf_summ.runtimes.any_model import prefix_arguments, prefix_of, with_prefix

# The largest number of origins that are listed for a word of the summary.
_MOST_ORIGINS = 8
# The largest number of links that are listed for a word of the source.
_MOST_LINKS = 4
# The least weight with which a source word is listed: its probability as an origin, or its attention as a link.
_LEAST_WEIGHT = 0.005


@dataclass(frozen=True)
class SourceWord:
    """A word of the source.

    Attributes:
        document: the index of the word's document.
        start, end: the positions in the document of the word's first character, and after its last character.
        text: the word.
        is_read: whether the word fit into the model's input. Words that did not fit were truncated.
        values: name of a measure -> its value for the word; see `Explanation`.
        links: the source words to which the word attends most, as pairs of index and weight. They are edges of the
            encoder's graph of self-attention (Xu et al. 2020, Figure 3): the weights of the last layer, as the mean
            over heads. There are none if the encoder has no self-attention.
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
    """A word of the summary.

    If the word has several subwords, `probability` is the product of their probabilities, and the other figures are
    means over the subwords.

    Attributes:
        start, end: the positions in the summary of the word's first character, and after its last character.
        text: the word.
        probability: the model's probability of the word, generated or copied.
        gate: the probability of copying any word at this place.
        copied: the probability that this word was copied.
        origins: the most probable source words, as pairs of index and probability that the word was copied from there.
        is_novel: whether the source lacks the word, in its truncated part too.
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

    The measures of a source word that was read are:

    - `copied`: the probability that the summary copied the word at least once.
    - `attention_of_summary`: the share of the summary's attention to the source that the word received, in the last
      layer, as the mean over heads and over the summary.
    - `centrality`: the word's centrality, if the model computes it.
    - `phrase_value`: the value of the key phrase that the word is in, if the model reads key phrases.
    - `attention_of_source`: the share of the encoder's self-attention that the word received, in the last layer, as the
      mean over heads and queries, if the encoder has self-attention.

    Attributes:
        model: the name of the checkpoint.
        model_type: the architecture, such as "sagcopy".
        documents: the cleaned texts of the source.
        summary: the text of the summary.
        source_words: the words of all documents, in order.
        summary_words: the words of the summary, in order.
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

    All probabilities and weights come from one forward pass over the finished summary.

    Args:
        model: a model that copies.
        processor: its processor.
        document: a text, or several documents of one example.
        summary: a text to explain instead of the model's summary. It is never truncated.
        phrases: key phrases and their values, for models that read them; None to extract them.
        source_prefix: a text to put before the document; by default the prefix in the config.
        word_tags: the tags of the words, for GDLF; by default the processor's tagger assigns them.
        generation: arguments of `generate()`.

    Raises:
        ValueError: the model does not copy, a text is blank, or the summary has more tokens than the decoder has
            positions.
    """
    _check(model, document, summary)
    if not isinstance(document, str):
        document = list(document)
    # With `whole_sentences`, the model chooses among the sentences of the document without the prefix.
    generation.setdefault("candidates", [document])
    prefix = prefix_of(model.config) if source_prefix is None else source_prefix
    document = with_prefix(document, prefix)
    source_arguments = _source_arguments(processor, prefix, phrases, word_tags)
    inputs = processor([document], return_tensors="pt", **source_arguments).to(model.device)
    replaces_unknown = False
    if summary is None:
        replace_unk = generation.pop("replace_unk", getattr(model.generation_config, "replace_unk", None))
        if replace_unk is not None:
            replaces_unknown = bool(replace_unk)
            # The model keeps unknown words, which are replaced after their origins are computed.
            generation["replace_unk"] = False
    with torch.inference_mode(), _eager(model):
        if summary is None:
            ids = _generate(model, processor, inputs, generation)
        else:
            labels = processor(text_target=summary, truncation=False)["labels"]
            ids = torch.tensor([[model.config.decoder_start_token_id, *labels]], device=model.device)
        columns = model.columns(ids, inputs["input_ids"])
        outputs = model(**inputs, decoder_input_ids=columns[:, :-1], output_attentions=True, use_cache=False)
    trace = _Trace(model, processor, document, inputs, outputs, columns)
    return trace.explanation(replaces_unknown)


def _check(model, document: str | Sequence[str], summary: str | None) -> None:
    """Check the model and the texts.

    Raises:
        ValueError: the model does not copy, or a text is blank.
    """
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


def _source_arguments(
    processor, prefix: str, phrases: Mapping[str, float] | None, word_tags: Any
) -> dict[str, list[Any]]:
    """The processor's further arguments of the source: lists with one value, as there is one example.

    Args:
        prefix: the text before the document.
        processor, phrases, word_tags: as for `explain`.
    """
    arguments: dict[str, list[Any]] = {}
    if phrases is not None:
        arguments["phrases"] = [phrases]
    if word_tags is not None:
        arguments["word_tags"] = [word_tags]
    arguments.update(prefix_arguments(processor, [prefix]))
    return arguments


def _generate(model, processor, inputs: Mapping[str, torch.Tensor], generation: Mapping[str, Any]) -> torch.Tensor:
    """(1, 1 + T), the ids of the model's best summary."""
    settings = {"tokenizer": processor.tokenizer}
    settings.update(generation)
    # A checkpoint's settings may request several summaries, or more outputs than tokens.
    settings["num_return_sequences"] = 1
    settings["return_dict_in_generate"] = False
    return model.generate(**inputs, **settings)


@contextmanager
def _eager(model) -> Generator[None]:
    """A context in which the model returns attention weights, which fused attention does not compute."""
    implementation = model.config._attn_implementation
    was_training = model.training
    model.set_attn_implementation("eager")
    model.eval()
    try:
        yield
    finally:
        model.set_attn_implementation(implementation)
        model.train(was_training)


@dataclass(frozen=True)
class _ReadSource:
    """The words of all documents, and source position -> index of the word at this position."""

    words: list[SourceWord]
    word_of_position: dict[int, int]


class _Trace:
    """The probabilities and weights of each subword of one example, on the CPU in float64.

    Args:
        model, processor: as for `explain`.
        document: a text, or the documents of the example.
        inputs, outputs: the model's inputs and outputs for the finished summary.
        columns: (1, 1 + T), the columns of the scores of the start token and of the summary's subwords.
    """

    def __init__(self, model, processor, document, inputs, outputs, columns: torch.Tensor):
        self.model = model
        self.processor = processor
        vocab_size = model.config.vocab_size
        source_ids = inputs["input_ids"].cpu()
        columns = columns.cpu()
        pointers = source_ids.shape[1] if model.unknown_ids else 0
        self.table = word_table(processor.tokenizer, vocab_size, pointers)
        # The columns behind the vocabulary belong to pointers.
        self.ids = torch.where(columns < vocab_size, columns, FIRST_POINTER + columns - vocab_size)
        self.summary_columns = columns[0, 1:].tolist()
        self.source_ids = model.known_ids(source_ids)
        (self.source,) = processor.read_sources([document], processor.max_source_length, with_offsets=True)
        targets = columns[:, 1:, None]
        self.log_probs = outputs.logits.cpu().double().gather(-1, targets)[0, :, 0]
        self.gates = outputs.copy_gates[0].cpu().double()
        self.copy_attention = outputs.copy_attentions[0].cpu().double()
        # (T, S), for each subword of the summary, the probability that it was copied from each source position:
        # gate · copy attention / probability of the subword if the position has the same subword, otherwise 0.
        copied_columns, _ = source_columns(source_ids, vocab_size, model.unknown_ids)
        is_same = copied_columns[0][None] == targets[0]
        copy_probs = self.gates[:, None] * self.copy_attention * is_same
        word_probs = self.log_probs.exp().clamp(min=torch.finfo(torch.float64).tiny)
        self.origins = copy_probs / word_probs[:, None]
        # (S, S), the self-attention of the encoder's last layer, as the mean over heads, if it has self-attention.
        self.self_attention = None
        if outputs.encoder_attentions:
            self.self_attention = outputs.encoder_attentions[-1][0].cpu().double().mean(0)
        self.measures = self._measures(inputs, outputs)

    def _measures(self, inputs, outputs) -> dict[str, torch.Tensor]:
        """The measures of each source position, (S,), by name."""
        special_ids = self.processor.tokenizer.all_special_ids
        is_text = torch.tensor([column not in special_ids for column in self.summary_columns])
        never_copied = (1.0 - self.origins[is_text].clamp(max=1.0)).prod(0)
        measures = {"copied": 1.0 - never_copied}
        if getattr(outputs, "centrality", None) is not None:
            measures["centrality"] = outputs.centrality[0].cpu().double()
        if "phrase_values" in inputs:
            measures["phrase_value"] = _phrase_values(inputs, len(never_copied))
        measures["attention_of_summary"] = torch.zeros_like(never_copied)
        if is_text.any():
            attention = outputs.cross_attentions[-1][0].cpu().double().mean(0)
            measures["attention_of_summary"] = attention[is_text].mean(0)
        if self.self_attention is not None:
            measures["attention_of_source"] = self.self_attention.mean(0)
        return measures

    def explanation(self, replaces_unknown: bool) -> Explanation:
        """The explanation.

        Args:
            replaces_unknown: whether unknown words of the summary are replaced by source words.
        """
        source = self._read_source()
        vocabulary = {self._normalized(word.text) for word in source.words}
        summary, words = self._summary(replaces_unknown)
        summary_words = []
        for word in words:
            text = summary[word.start : word.end]
            is_novel = self._normalized(text) not in vocabulary
            summary_words.append(self._summary_word(word, text, is_novel, source.word_of_position))
        return Explanation(
            model=shared_name(self.model.name_or_path),
            model_type=self.model.config.model_type,
            documents=self.source.documents,
            summary=summary,
            source_words=source.words,
            summary_words=summary_words,
        )

    def _read_source(self) -> _ReadSource:
        """The words of all documents with their measures and links."""
        words = []
        # For each word, the positions of its subwords in the model's input.
        positions_of_words = []
        word_of_position = {}
        for document, text in enumerate(self.source.documents):
            ids = self.model.known_ids(torch.tensor(self.source.token_ids[document])).tolist()
            offsets = self.source.offsets[document]
            first, length = self.source.row.spans[document]
            for start, end, subwords in words_of_source(text, ids, offsets, self.table):
                positions = []
                for index in subwords:
                    # The subwords from `length` on are truncated.
                    if index < length:
                        positions.append(first + index)
                        word_of_position[first + index] = len(words)
                values = self._values(positions)
                words.append(SourceWord(document, start, end, text[start:end], bool(positions), values))
                positions_of_words.append(positions)
        if self.self_attention is not None:
            # Words link to later words too, so the links come after all words.
            for index, positions in enumerate(positions_of_words):
                if positions:
                    weights = self.self_attention[positions].mean(0)
                    links = _heaviest_words(weights, word_of_position, _MOST_LINKS)
                    words[index] = replace(words[index], links=links)
        return _ReadSource(words, word_of_position)

    def _values(self, positions: Sequence[int]) -> dict[str, float]:
        """The measures of the word at these source positions; none for a truncated word."""
        values: dict[str, float] = {}
        if not positions:
            return values
        for name, measure in self.measures.items():
            subword_values = measure[positions]
            if name in ("copied", "phrase_value"):
                strongest = subword_values.abs().argmax()
                values[name] = float(subword_values[strongest])
            else:
                # The other measures are shares of 1. The share of a word is the sum of the shares of its subwords.
                values[name] = float(subword_values.sum())
        return values

    def _summary(self, replaces_unknown: bool) -> tuple[str, list[Word]]:
        """The text of the summary, and its words.

        Args:
            replaces_unknown: whether unknown words are replaced by source words.
        """
        tokenizer = self.processor.tokenizer
        special_ids = set(tokenizer.all_special_ids) - {tokenizer.unk_token_id}
        ids = self.ids[0, 1:].tolist()
        if replaces_unknown:
            ids = self._replaced_ids(sorted(special_ids))
        groups = []
        rows = []
        text_ids = []
        for group in group_by_word(self.summary_columns, self.table):
            subwords = [index for index in group if self.summary_columns[index] not in special_ids]
            if subwords:
                word_ids = [ids[index] for index in subwords]
                groups.append(subwords)
                rows.append(word_ids)
                text_ids.extend(word_ids)
        # The last row is the whole text. Each row before it is a word.
        rows.append(text_ids)
        decoded = self.processor.batch_decode(rows, documents=[self.source.documents])
        pieces = decoded[:-1]
        text = decoded[-1]
        try:
            spans = words_of_summary(text, pieces)
        except ValueError:
            # The decoder of the tokenizer joins words so that their characters change. So words are joined here.
            text = " ".join(pieces)
            spans = words_of_summary(text, pieces)
        words = []
        for (start, end), subwords in zip(spans, groups, strict=True):
            if start < end:
                words.append(Word(start, end, subwords))
        return text, words

    def _replaced_ids(self, special_ids: Sequence[int]) -> list[int]:
        """The summary's ids, in which the source words with the most attention replace unknown words."""
        ids = self.ids.numpy(force=True)
        attentions = self.copy_attention[None].numpy(force=True)
        source_ids = self.source_ids.numpy(force=True)
        unknown = self.processor.tokenizer.unk_token_id
        replaced = replace_unknown(ids, attentions, source_ids, unknown, special_ids)
        return replaced[0, 1:].tolist()

    def _summary_word(self, word: Word, text: str, is_novel: bool, word_of_position: Mapping[int, int]) -> SummaryWord:
        """A word of the summary with its probabilities and origins.

        Args:
            word: the span of the word in the summary, and its subwords.
            text: the word.
            is_novel: whether the source lacks the word.
            word_of_position: source position -> index of the source word.
        """
        origins = self.origins[word.subwords].mean(0)
        log_prob = self.log_probs[word.subwords].sum()
        gate = self.gates[word.subwords].mean()
        return SummaryWord(
            start=word.start,
            end=word.end,
            text=text,
            probability=float(log_prob.exp()),
            gate=float(gate),
            copied=min(float(origins.sum()), 1.0),
            origins=_heaviest_words(origins, word_of_position, _MOST_ORIGINS),
            is_novel=is_novel,
        )

    def _normalized(self, word: str) -> str:
        """A word after the tokenizer's normalization, which may drop accents, and without case."""
        normalizer = self.processor.tokenizer.backend_tokenizer.normalizer
        if normalizer is not None:
            word = normalizer.normalize_str(word)
        return word.strip().casefold()


def _heaviest_words(weights: torch.Tensor, word_of_position: Mapping[int, int], most: int) -> list[tuple[int, float]]:
    """The source words with the largest weights, as pairs of index and weight, from the largest weight down.

    Words whose weight is below `_LEAST_WEIGHT` are left out.

    Args:
        weights: (S,), the weight of each source position: a probability of copying, or attention. The weight of a word
            is the sum of the weights of its positions.
        word_of_position: source position -> index of the source word.
        most: the largest number of words.
    """
    word_weights: dict[int, float] = {}
    for position in weights.nonzero()[:, 0].tolist():
        # Special tokens belong to no word.
        if position in word_of_position:
            index = word_of_position[position]
            word_weights[index] = word_weights.get(index, 0.0) + float(weights[position])
    # Words with equal weights stay in the order of the source.
    ranked = sorted(word_weights.items(), key=lambda pair: (-pair[1], pair[0]))
    return [(index, weight) for index, weight in ranked[:most] if weight >= _LEAST_WEIGHT]


def _phrase_values(inputs: Mapping[str, torch.Tensor], length: int) -> torch.Tensor:
    """The value of the key phrase at each source position, (length,).

    The value is 0 outside of phrases. Where phrases overlap, it is the value with the largest absolute value.

    Args:
        inputs: the model's inputs, with the spans and the values of the key phrases.
        length: the number of source positions.
    """
    values = torch.zeros(length, dtype=torch.float64)
    starts = inputs["phrase_starts"][0].tolist()
    ends = inputs["phrase_ends"][0].tolist()
    phrase_values = inputs["phrase_values"][0].tolist()
    phrases = zip(starts, ends, phrase_values, strict=True)
    # Stronger phrases overwrite weaker phrases.
    for start, end, value in sorted(phrases, key=lambda phrase: abs(phrase[2])):
        values[start:end] = value
    return values
