"""Pairs per second of both ROUGE modes and of the package rouge-score, and the time of the bootstrap, on one core.

Run: python benchmarks/rouge.py
"""

import argparse
import time
from functools import partial

from measuring import cpu_seconds, fix_allocator, print_table

fix_allocator()

import numpy as np
from rouge_score.rouge_scorer import RougeScorer

from hf_summ.data.sentences import split_sentences
from hf_summ.evaluation import RougeSettings, bootstrap_interval, paired_bootstrap, rouge
from hf_summ.evaluation.rouge import ROUGE_TYPES

_THREE = ("rouge1", "rouge2", "rougeL")
_MODES = {
    "rouge_score 1/2/L/Lsum": RougeSettings(rouge_mode="rouge_score"),
    "rouge_score 1/2/L/Lsum by lines": RougeSettings(rouge_mode="rouge_score", sentences="lines"),
    "rouge155 1/2/L": RougeSettings(rouge_types=_THREE),
    "rouge155 1/2/L by lines": RougeSettings(rouge_types=_THREE, sentences="lines"),
    "rouge155 all": RougeSettings(),
}


def made_up_text(generator: np.random.Generator, sentences: int, words: int) -> str:
    """Sentences with natural word frequencies (Zipf's law), inflected to exercise the stemmer."""
    endings = ("", "s", "ed", "ing", "ation", "ly")
    drawn = np.minimum(generator.zipf(1.3, (sentences, words)), 30_000)
    lines = (" ".join(f"w{chr(97 + n % 26)}rd{n:x}".replace("0", "o") + endings[n % 6] for n in row) for row in drawn)
    return "\n".join(f"{line}." for line in lines)


def package_scores(predictions: list[str], references: list[str]) -> None:
    """The scores of mode rouge_score by lines, from the package itself."""
    scorer = RougeScorer(ROUGE_TYPES, use_stemmer=True)
    for prediction, reference in zip(predictions, references, strict=True):
        scorer.score(reference, prediction)


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=1000, help="Number of pairs per size of text (default: 1000)")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    rows = []
    for title, sentences, words in (("headline, 1 x 10 words", 1, 10), ("highlights, 4 x 14 words", 4, 14)):
        generator = np.random.default_rng(0)
        texts = [made_up_text(generator, sentences, words) for _ in range(2 * arguments.pairs)]
        predictions, references = texts[::2], texts[1::2]
        candidates = {"rouge-score, the package": partial(package_scores, predictions, references)}
        for name, settings in _MODES.items():
            candidates[name] = partial(rouge, predictions, references, settings)
        candidates["splitting into sentences alone"] = lambda texts=texts: list(map(split_sentences, texts))
        seconds = cpu_seconds(candidates, arguments.rounds)
        rows += [[title, name, f"{arguments.pairs / value:,.0f}"] for name, value in seconds.items()]
    print_table("Pairs per second", ["texts", "mode", "pairs/s"], rows)
    scores = np.random.default_rng(0).random((2, 11_334)) * 100
    seconds = cpu_seconds(
        {
            "bootstrap_interval": lambda: bootstrap_interval(scores[0]),
            "paired_bootstrap": lambda: paired_bootstrap(scores[0], scores[1]),
        },
        arguments.rounds,
    )
    start = time.perf_counter()
    bootstrap_interval(scores[0])
    elapsed = time.perf_counter() - start
    rows = [[name, f"{value:.3f}"] for name, value in seconds.items()]
    print_table(
        "11,334 pairs x 1,000 resamples", ["", "CPU s"], [*rows, ["bootstrap_interval, wall clock", f"{elapsed:.3f}"]]
    )


if __name__ == "__main__":
    main()
