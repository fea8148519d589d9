"""The table of measures: what computes each, what it reads, the titles of its scores, and which of them should fall.

Each score is a function of sums of the rows' statistics, see `Scored`, so each has an interval and can be compared.
Training runs, `hf-summ evaluate`, the papers' tables and model cards read this table, and `hf_summ.evaluation.metrics`
makes metrics of the library `evaluate` of its entries. A new measure is a function and an entry here.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal

from hf_summ.common.flags import flag
from hf_summ.common.messages import check_choice, one_line
from hf_summ.data.sentences import split_sentences
from hf_summ.evaluation.bleu import TITLES as BLEU_TITLES
from hf_summ.evaluation.bleu import bleu_measures, chrf_statistics, corpus_chrf, tokenizer_for
from hf_summ.evaluation.novelty import NGRAMS, novelty_measures
from hf_summ.evaluation.novelty import TITLES as NOVELTY_TITLES
from hf_summ.evaluation.rouge import ALL_TYPES, ROUGE155_TYPES, ROUGE_TYPES, rouge_scores_in_mode
from hf_summ.evaluation.significance import Scored, mean_over_rows
from hf_summ.evaluation.support import support_scores
from hf_summ.evaluation.words import is_english
from hf_summ.models.checks import Range

RougeMode = Literal["rouge155", "rouge_score"]
Several = Literal["best", "pooled"]


@dataclass(frozen=True)
class Settings:
    """What the measures and the bootstrap are computed with; most are flags of `hf-summ evaluate`.

    Args:
        rouge_part: which of ROUGE's "fmeasure", "precision" and "recall" is the score.
        metrics: the measures to compute, in `hf-summ evaluate` further ones -> the model that it needs, a folder or a
            name on the Hub; empty for a measure that needs none.
    """

    language: str = flag("reporting", "ISO 639 code of the summaries' language", "en")
    sentences: Literal["split", "lines"] = flag("reporting", "Split lines into sentences, or read each as one", "split")
    splitter: Literal["sentencex", "spacy"] = flag(
        "reporting",
        "Sentence splitter: sentencex, or spaCy's sentencizer, which is for English and needs the extra `extractive`",
        "sentencex",
    )
    rouge_mode: RougeMode = flag(
        "reporting",
        "Compute ROUGE as the Perl script ROUGE-1.5.5, which papers report, or as Google's rouge-score",
        "rouge155",
    )
    rouge_types: tuple[str, ...] | None = flag(
        "reporting", "Types such as rouge1 rouge2 rougeL", unset="the mode's", nargs="+", metavar="TYPE"
    )
    units: Literal["words", "lcsts"] = flag(
        "reporting",
        "Units of ROUGE in languages other than English: words, or characters for Chinese and Japanese (words), or the "
        "characters of DRGD's program, without most punctuation and digits (lcsts)",
        "words",
    )
    rouge_tokenizer: str | None = flag(
        "reporting",
        "Tokenizer whose subwords ROUGE compares, as in the thesis's tables: a folder or a name on the Hub",
        unset="words are compared",
        metavar="NAME",
    )
    byte_limit: int | None = flag(
        "reporting", "Truncate summaries to N bytes (rouge155)", unset="no limit", metavar="N"
    )
    several: Several | None = flag(
        "reporting",
        "How to combine several references: the best score, or matches summed over all references before dividing",
        unset="best with rouge_score, pooled with rouge155",
    )
    average: Literal["macro", "micro"] = flag(
        "reporting", "Average novelty over rows, or over the corpus", "macro", needs=("sources",)
    )
    count: Literal["types", "tokens"] = flag(
        "reporting", "Count novel n-grams once each, or as they occur", "types", needs=("sources",)
    )
    count_punctuation: bool = flag(
        "reporting",
        "Count punctuation marks as words in novelty, as papers do that count tokenized texts",
        False,
        "do not",
        needs=("sources",),
    )
    resamples: int = flag("reporting", "Resamples of the bootstrap", 1000, range=Range(1), metavar="N")
    seed: int = flag("reporting", "Random seed of the resamples", 0, range=Range(0))
    use_stemmer: bool = True
    rouge_part: str = "fmeasure"
    metrics: Mapping[str, str] = field(default_factory=dict)

    @property
    def of_several(self) -> str:
        """How several references are combined, see `rouge_scores`."""
        return self.several or ("pooled" if self.rouge_mode == "rouge155" else "best")

    @property
    def stemming(self) -> str:
        """How the forms of a word are reduced to one."""
        if not self.use_stemmer or not is_english(self.language):
            return "none"
        return "Porter (NLTK's)" if self.rouge_mode == "rouge_score" else "Porter and WordNet's exceptions"


@dataclass(frozen=True, eq=False)
class Measure:
    """An entry of the table.

    Args:
        name: its name in `--metrics`.
        titles: score -> its title in tables.
        compute: predictions, references or sources, settings -> score -> `Scored`.
        note: a sentence for readers of its scores.
        reads: what the predictions are compared with.
        columns: the scores that a run's table and card show, if not all.
        falling: the scores for which lower is better.
        needs: the model that it needs, in messages.
        source: the address of its paper.
    """

    name: str
    titles: Mapping[str, str]
    compute: Callable[..., dict[str, Scored]]
    note: str
    reads: Literal["references", "sources"] = "references"
    columns: tuple[str, ...] = ()
    falling: tuple[str, ...] = ()
    needs: str | None = None
    source: str | None = None

    def scores(self, rouge_mode: str) -> tuple[str, ...]:
        """The names of its scores, of which ROUGE has others in each mode."""
        if self.name == "rouge":
            return ROUGE155_TYPES if rouge_mode == "rouge155" else ROUGE_TYPES
        return tuple(self.titles)


@lru_cache(maxsize=1)
def _pieces(name: str) -> Callable[[str], list[str]]:
    """The function that splits a text into a tokenizer's subwords."""
    # imported late, as it is slow
    from transformers import AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained(name).tokenize
    except Exception as error:
        # for broken files, transformers and tokenizers raise errors of any type
        raise ValueError(f"`rouge_tokenizer` is {name!r:.80}, but cannot be loaded: {one_line(error):.300}") from error


def in_pieces(texts: Sequence[str | Sequence[str]], pieces: Callable[[str], list[str]], settings: Settings) -> list:
    """Texts, or lists of them, as subwords between spaces, one sentence per line, as subwords hide its end."""

    def sentences(text: str) -> list[str]:
        if settings.sentences == "lines":
            return text.split("\n")
        return split_sentences(text, settings.language, settings.splitter)

    return [
        "\n".join(" ".join(pieces(sentence)) for sentence in sentences(text))
        if isinstance(text, str)
        else in_pieces(text, pieces, settings)
        for text in texts
    ]


def rouge_of_rows(
    predictions: Sequence[str], references: Sequence[str | Sequence[str]], settings: Settings
) -> dict[str, Any]:
    """ROUGE type -> precision, recall and F of each row, see `rouge_scores_in_mode`."""
    names = ("use_stemmer", "language", "sentences", "splitter", "units", "several", "byte_limit")
    options = {name: getattr(settings, name) for name in names}
    if settings.rouge_types is not None:
        options["rouge_types"] = settings.rouge_types
    if settings.rouge_tokenizer is not None:
        pieces, options["sentences"] = _pieces(settings.rouge_tokenizer), "lines"
        predictions, references = (in_pieces(texts, pieces, settings) for texts in (predictions, references))
    return rouge_scores_in_mode(settings.rouge_mode, predictions, references, **options)


def _rouge(predictions, references, settings: Settings) -> dict[str, Scored]:
    scores = rouge_of_rows(predictions, references, settings)
    return {name: mean_over_rows(getattr(columns, settings.rouge_part)) for name, columns in scores.items()}


def _bertscore(predictions, references, settings: Settings) -> dict[str, Scored]:
    # imported here, as below: no other measure needs torch
    from hf_summ.evaluation.pair_models import bertscore_scores

    return {"bertscore": mean_over_rows(bertscore_scores(settings.metrics["bertscore"], predictions, references))}


def _novelty(predictions, sources, settings: Settings) -> dict[str, Scored]:
    options = settings.language, settings.average, settings.count, settings.count_punctuation
    return novelty_measures(predictions, sources, *options)


def _entailment(predictions, sources, settings: Settings) -> dict[str, Scored]:
    from hf_summ.evaluation.pair_models import entailment_model, entailment_scores

    model = entailment_model(settings.metrics["entailment"])
    return {"entailment": mean_over_rows(entailment_scores(model, predictions, sources, settings.language))}


_TABLE = (
    Measure(
        "rouge",
        {name: f"ROUGE-{name.removeprefix('rouge')}" for name in ALL_TYPES},
        _rouge,
        "ROUGE is computed as the Perl script ROUGE-1.5.5 or Google's rouge-score does, in points.",
        source="https://aclanthology.org/W04-1013",
    ),
    Measure(
        "bleu",
        BLEU_TITLES,
        lambda predictions, references, settings: bleu_measures(
            predictions, references, tokenizer_for(settings.language)
        ),
        "BLEU is that of the corpus, computed by sacrebleu.",
        columns=("bleu",),
        source="https://aclanthology.org/P02-1040",
    ),
    Measure(
        "chrf",
        {"chrf": "chrF"},
        lambda predictions, references, _: {"chrf": Scored(chrf_statistics(predictions, references), corpus_chrf)},
        "chrF is F2 of the corpus's character n-grams, computed by sacrebleu.",
        source="https://aclanthology.org/W15-3049",
    ),
    Measure(
        "bertscore",
        {"bertscore": "BERTScore F"},
        _bertscore,
        "BERTScore is F in points, not rescaled, so only scores of the same encoder can be compared.",
        needs="encoder",
        source="https://openreview.net/forum?id=SkeHuCVFDr",
    ),
    Measure(
        "novelty",
        NOVELTY_TITLES,
        _novelty,
        "Novel n-grams are those that the document does not have, and copied words those in fragments of the document.",
        reads="sources",
        columns=(*(f"novel{n}" for n in NGRAMS), "copy_rate", "length"),
        falling=tuple(f"repeated{n}" for n in NGRAMS),
        source="https://aclanthology.org/N18-1065",
    ),
    Measure(
        "support",
        {"support": "Support, %"},
        lambda predictions, sources, settings: {
            "support": mean_over_rows(support_scores(predictions, sources, settings.language))
        },
        "Support is the mean of two shares: of a summary's content words that occur in the document, and of its "
        "adjacent pairs that occur together in one sentence of the document. It is no fact check.",
        reads="sources",
    ),
    Measure(
        "entailment",
        {"entailment": "Entailment, %"},
        _entailment,
        "Entailment is the mean over a summary's sentences of the highest probability that a passage of the document "
        "entails it.",
        reads="sources",
        needs="model of natural language inference",
    ),
)
MEASURES: Mapping[str, Measure] = {measure.name: measure for measure in _TABLE}
"""The table: name -> measure."""
# scores for which lower is better, with those of the model's losses
FALLING = ("nll", "perplexity", *(score for measure in _TABLE for score in measure.falling))
_TITLES = {score: title for measure in _TABLE for score, title in measure.titles.items()}
_TITLES["perplexity"] = "Perplexity"
# the names that `--metrics` takes, for its help
NAMED = ", ".join(f"{measure.name}=MODEL" if measure.needs else measure.name for measure in _TABLE)


def title_of(score: str) -> str:
    """A score's title in tables."""
    return _TITLES[score]


def measure_of(score: str) -> Measure | None:
    """The measure with a score."""
    return next((measure for measure in _TABLE if score in measure.titles), None)


def check_metrics(metrics: Iterable[str]) -> dict[str, str]:
    """The measures named on a command line as `name` or `name=MODEL`: name -> model, empty if it needs none."""
    models = {}
    for text in metrics:
        name, _, model = text.partition("=")
        check_choice("--metrics", name, MEASURES)
        needs = MEASURES[name].needs
        if bool(needs) != bool(model):
            hint = f"a model: name its {needs}, as in {name}=MODEL" if needs else f"no model: give {name} alone"
            raise ValueError(f"--metrics {text}: needs {hint}")
        models[name] = model
    return models
