"""Examples per second for key phrases with their places, compared with scikit-learn without places, on one core.

Run: python benchmarks/key_phrases.py
"""

import argparse
from functools import partial

from measuring import cpu_seconds, fix_allocator, print_table

fix_allocator()

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer

from hf_summ.models.text_processing_highlight_transformer import STOP_WORDS, document_frequencies, key_phrases

STOPS = sorted(STOP_WORDS)


def made_up_text(generator: np.random.Generator, words: int) -> str:
    """Sentences with natural word frequencies (Zipf's law); two of five words are stop words."""
    drawn = np.minimum(generator.zipf(1.2, words), 30_000)
    is_stop = generator.random(words) < 0.4
    texts = [STOPS[n % len(STOPS)] if stop else f"w{n:x}" for n, stop in zip(drawn, is_stop, strict=True)]
    return " ".join(f"{word}." if place % 20 == 19 else word for place, word in enumerate(texts))


def ours(texts: list[str], frequencies: dict[str, int], fitted: int) -> None:
    """The ten phrases of each text, with their values and places."""
    for text in texts:
        key_phrases([text], frequencies, fitted)


def of_scikit_learn(texts: list[str], vectorizer: TfidfVectorizer) -> None:
    """The ten n-grams of each text and their values."""
    names = vectorizer.get_feature_names_out()
    matrix = vectorizer.transform(texts)
    for row in range(len(texts)):
        values = matrix.data[matrix.indptr[row] : matrix.indptr[row + 1]]
        columns = matrix.indices[matrix.indptr[row] : matrix.indptr[row + 1]]
        best = np.argsort(-values, kind="stable")[:10]
        dict(zip(names[columns[best]], values[best], strict=True))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=int, default=1000, help="Number of texts (default: 1000)")
    parser.add_argument("--words", type=int, default=500, help="Words per text (default: 500)")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    generator = np.random.default_rng(0)
    texts = [made_up_text(generator, arguments.words) for _ in range(arguments.texts)]
    frequencies, fitted = document_frequencies([text] for text in texts)
    vectorizer = TfidfVectorizer(ngram_range=(2, 3), stop_words="english").fit(texts)
    seconds = cpu_seconds(
        {
            "key phrases with their places": partial(ours, texts, frequencies, fitted),
            "scikit-learn's TfidfVectorizer, without places": partial(of_scikit_learn, texts, vectorizer),
        },
        arguments.rounds,
    )
    rows = [[name, f"{arguments.texts / value:,.0f}"] for name, value in seconds.items()]
    print_table(f"{arguments.texts:,} texts of {arguments.words} words", ["phrases", "texts per second"], rows)


if __name__ == "__main__":
    main()
