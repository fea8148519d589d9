"""A look at a corpus before a model is trained on it: what its files contain, what looks wrong, and what to do."""

import random
import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from hashlib import blake2b
from typing import Any

import numpy as np

from hf_summ.common.pages import markdown_table
from hf_summ.data.columns import LIST_COLUMNS, has_text
from hf_summ.data.corpora import Corpus
from hf_summ.data.lines import is_wrapped, joined_lines
from hf_summ.data.lists import joined_sentences
from hf_summ.data.marks import Marks
from hf_summ.data.surveys import ColumnSurvey, choose_corpus_columns
from hf_summ.evaluation.novelty import novelty
from hf_summ.evaluation.significance import is_paired
from hf_summ.evaluation.words import split_words
from hf_summ.models.text_documents import DOCUMENT_SEPARATOR
from hf_summ.models.text_tagging import script_of

# space, also as `repr` writes it
_SPACE = re.compile(r"(?:\s|\\[nrt]|\\xa0)+")
# a finding about a smaller share of the rows is left out
_LEAST_SHARE = 0.01
# characters of a summary that may stand for none, such as nan
_SHORT = 20
# copied words of a summary, in points, from which its words are mostly the document's
_COPIED, _LONG_FRAGMENTS = 95, 10
_PERCENTILES = {"median": 50, "p95": 95, "max": 100}


class FileReport:
    """What a file of a corpus contains.

    Args:
        corpus: the corpus, with this file as its `train_file`.
        earlier: for each earlier file, the hashes of its documents; this file's are added.
        count: the numbers of subwords of texts, or None.
        limits: the numbers of subwords that a model reads of documents, and writes.
        language: ISO 639 code.
        sample: number of rows, drawn at random, whose texts are measured; counts are of all rows.
    """

    def __init__(
        self,
        corpus: Corpus,
        earlier: dict[str, set[bytes]],
        count: Callable[[Sequence[str]], Sequence[int]] | None,
        limits: tuple[int, int] | None,
        language: str = "en",
        sample: int = 10_000,
    ):
        self.name = corpus.files["train"]
        self._count, self._limits, self.language = count, limits, language
        paths, option = corpus.paths("train"), corpus.option()
        survey = None
        self._blank = self._duplicates = self._pairs = self.rows = 0
        self._others: list[str] = []
        self._shared: Counter[str] = Counter()
        self._short: Counter[str] = Counter()
        self._marks = {column: Marks() for column in LIST_COLUMNS}
        hashes: set[bytes] = set()
        pairs: set[bytes] = set()
        drawn: list[dict[str, Any]] = []
        generator = random.Random(0)
        for position, row in corpus.format.read(paths, True):
            if not corpus.format.passes(row, option):
                continue
            where = f"{self.name}, {position}"
            if survey is None:
                survey = ColumnSurvey(corpus, choose_corpus_columns(corpus, paths, row, where))
                self._others = [name for name in row if name not in survey.chosen.values()]
            self.rows += 1
            texts = survey.look_at(row, where)
            if texts is None:
                self._blank += 1
                continue
            document, pair = _hash(texts["document"]), _hash([texts["document"], texts["summary"]])
            self._duplicates += document in hashes
            self._pairs += pair in pairs
            self._shared.update(name for name, own in earlier.items() if document in own)
            if isinstance(texts["summary"], str) and len(texts["summary"]) <= _SHORT:
                self._short[texts["summary"]] += 1
            hashes.add(document)
            pairs.add(pair)
            for column, marks in self._marks.items():
                marks.add(texts[column])
            # each row has the same chance (reservoir sampling)
            index = len(drawn) if len(drawn) < sample else generator.randrange(self.rows)
            if index < sample:
                drawn[index : index + 1] = [texts]
        if survey is None:
            raise ValueError(f"{self.name} has no rows: it must have at least one document and its summary")
        self._survey = survey
        earlier[self.name] = hashes
        self._sampled = len(drawn)
        self._documents = [_text(row["document"], "document" in survey.sentences) for row in drawn]
        if corpus.lines is not None:
            self._documents = [joined_lines(text, corpus.lines) for text in self._documents]
        self._summaries = [_text(row["summary"], "summary" in survey.sentences, is_first=True) for row in drawn]

    def figures(self) -> dict[str, Any]:
        """All figures, ready for JSON."""
        scripts = Counter(filter(None, map(script_of, self._documents)))
        scores: dict[str, list[float]] = {"copy_rate": [], "copy_density": []}
        if self._documents:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)
                # it is raised if none of the documents has words in this language
                with suppress(ValueError):
                    measured = novelty(self._summaries, self._documents, self.language)
                    scores = {name: measured[name].rows().tolist() for name in scores}
        return {
            "file": self.name,
            "rows": self.rows,
            "columns": {**self._survey.chosen, "others": self._others},
            "lists": self._survey.meanings(),
            "blank": self._blank,
            "duplicate_documents": self._duplicates,
            "duplicate_pairs": self._pairs,
            "documents_in": dict(self._shared),
            "summary_in_document": self._survey.doubts.within,
            "document_shorter": self._survey.doubts.shorter,
            "marks": {column: dict(marks.counts) for column, marks in self._marks.items()},
            "sampled": self._sampled,
            "wrapped": sum(map(is_wrapped, self._documents)),
            "scripts": dict(scripts.most_common()),
            "language": self.language,
            "document_words": _spread([len(split_words(text, self.language)) for text in self._documents]),
            "summary_words": _spread([len(split_words(text, self.language)) for text in self._summaries]),
            **self._subwords(),
            "coverage": _mean(scores["copy_rate"]),
            "density": _mean(scores["copy_density"]),
        }

    def _is_shifted(self) -> bool:
        """Whether summaries copy as many words of other rows' documents as of their own."""

        def copied(summaries: Sequence[str], documents: Sequence[str]) -> np.ndarray:
            return np.nan_to_num(novelty(summaries, documents, self.language)["copy_rate"].rows())

        return not is_paired(self._summaries, self._documents, copied)

    def _subwords(self) -> dict[str, Any]:
        if self._count is None or self._limits is None:
            return {}
        figures: dict[str, Any] = {}
        for side, texts, limit in zip(
            ("document", "summary"), (self._documents, self._summaries), self._limits, strict=True
        ):
            numbers = self._count(texts) if texts else []
            figures[f"{side}_subwords"] = _spread(numbers)
            figures[f"{side}_beyond"] = {"limit": limit, "rows": sum(number > limit for number in numbers)}
        return figures

    def findings(self, figures: dict[str, Any]) -> Iterator[str]:
        """What looks wrong, each with what to do about it."""
        name, rows, sampled = self.name, max(self.rows, 1), max(self._sampled, 1)
        if figures["blank"]:
            yield f"{name}: {figures['blank']:,} of {rows:,} rows have a blank document or summary and are left out"
        for text, number in self._short.most_common(1):
            if number > max(_LEAST_SHARE * rows, 1):
                yield f"{name}: {number:,} of {rows:,} summaries are {text!r}: remove them if it stands for none"
        for key, items in (("duplicate_pairs", "pairs"), ("duplicate_documents", "documents")):
            if figures[key] and (key == "duplicate_pairs" or figures[key] > figures["duplicate_pairs"]):
                yield f"{name}: {figures[key]:,} of {rows:,} {items} occur earlier in the file: remove the copies"
        for other, number in figures["documents_in"].items():
            yield (
                f"{name}: {number:,} of {rows:,} documents are in {other} too: remove them from one, or scores are of "
                "documents that a model was trained on"
            )
        yield from (f"{name}: {note}" for note in self._survey.notes())
        for column, marks in self._marks.items():
            yield from marks.notes(f"{name}, '{self._survey.chosen[column]}'", rows)
        if figures["wrapped"] > _LEAST_SHARE * sampled:
            yield (
                f"{name}: {figures['wrapped']:,} of {sampled:,} documents have wrapped lines, whose ends are read as "
                "spaces: `lines` sentences if they end sentences"
            )
        if len(figures["scripts"]) > 1:
            script, number = list(figures["scripts"].items())[1]
            if number > _LEAST_SHARE * sampled:
                yield f"{name}: {number:,} of {sampled:,} documents are mostly in another script, {script}: remove them"
        for side, flag in (("document", "max_source_length"), ("summary", "max_target_length")):
            beyond = figures.get(f"{side}_beyond", {"rows": 0})
            if beyond["rows"] > _LEAST_SHARE * sampled:
                remedy = f"`{flag}` {figures[f'{side}_subwords']['p95']}"
                remedy += ", or `long_documents` windows" if side == "document" else ""
                yield (
                    f"{name}: {beyond['rows']:,} of {sampled:,} texts in '{self._survey.chosen[side]}' have more than "
                    f"{beyond['limit']:,} subwords and are truncated: {remedy}"
                )
        if self._is_shifted():
            yield (
                f"{name}: summaries have no more words of their own documents than of those of other rows: the pairs "
                "may be shifted"
            )
        coverage, density = figures["coverage"] or 0, figures["density"] or 0
        if coverage > _COPIED and density > _LONG_FRAGMENTS:
            yield (
                f"{name}: summaries copy {coverage:.0f}% of their words, in fragments of {density:.0f} words: compare "
                "with `hf-summ extract`"
            )


def as_tables(files: Sequence[dict[str, Any]]) -> str:
    """The figures of the files in Markdown, a file a column."""
    rows = [
        ["Rows", *(f"{figures['rows']:,}" for figures in files)],
        ["Documents from", *(_columns_of(figures, "document") for figures in files)],
        ["Summaries from", *(_columns_of(figures, "summary") for figures in files)],
        ["Other columns", *(", ".join(figures["columns"]["others"]) or "-" for figures in files)],
    ]
    for title, key in (
        ("Blank rows", "blank"),
        ("Duplicate documents", "duplicate_documents"),
        ("Duplicate pairs", "duplicate_pairs"),
        ("Summary within document", "summary_in_document"),
        ("Document shorter than summary", "document_shorter"),
        ("Rows measured below", "sampled"),
        ("Documents with wrapped lines", "wrapped"),
    ):
        rows.append([title, *(f"{figures[key]:,}" for figures in files)])
    rows.append(["Language", *(figures["language"] for figures in files)])
    for unit in ("words", "subwords"):
        for side in ("document", "summary"):
            if f"{side}_{unit}" in files[0]:
                title = f"{side.capitalize()}, {unit}: {', '.join(_PERCENTILES)}"
                rows.append([title, *(_shown(figures[f"{side}_{unit}"]) for figures in files)])
    for side in ("document", "summary"):
        if f"{side}_beyond" in files[0]:
            limit = files[0][f"{side}_beyond"]["limit"]
            shares = (figures[f"{side}_beyond"]["rows"] / max(figures["sampled"], 1) for figures in files)
            rows.append([f"{side.capitalize()} beyond {limit:,} subwords", *(f"{share:.1%}" for share in shares)])
    for title, key in (("Coverage, %", "coverage"), ("Density, words", "density")):
        rows.append([title, *("-" if figures[key] is None else f"{figures[key]:.2f}" for figures in files)])
    return markdown_table(["Corpus", *(figures["file"] for figures in files)], rows)


def _columns_of(figures: dict[str, Any], column: str) -> str:
    meaning = figures["lists"].get(column)
    return figures["columns"][column] + (f" (lists of {meaning})" if meaning else "")


def _shown(spread: dict[str, int]) -> str:
    return ", ".join(f"{value:,}" for value in spread.values()) or "-"


def _hash(texts: Any) -> bytes:
    """A hash of texts whatever space is between their words."""
    return blake2b(_SPACE.sub(" ", repr(texts)).encode("utf-8", "surrogatepass"), digest_size=8).digest()


def _text(value: str | list[str | None], is_sentences: bool, is_first: bool = False) -> str:
    if isinstance(value, str):
        return value
    if is_sentences:
        return joined_sentences(value)
    members = [member for member in value if member and has_text(member)]
    return members[0] if is_first else DOCUMENT_SEPARATOR.join(members)


def _spread(numbers: Sequence[int]) -> dict[str, int]:
    return {name: round(np.percentile(numbers, share)) for name, share in _PERCENTILES.items()} if len(numbers) else {}


def _mean(values: Sequence[float]) -> float | None:
    numbers = [value for value in values if value == value]
    return round(sum(numbers) / len(numbers), 4) if numbers else None
