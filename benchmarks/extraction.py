"""CPU seconds and peak memory of ranking a long document's sentences, and next-sentence pairs per second, on one core.

The memory is the allocations of Python and numpy, measured by tracemalloc in a separate run.

Run: python benchmarks/extraction.py
"""

import argparse
import tempfile
import tracemalloc
from collections.abc import Callable
from functools import partial

from measuring import cpu_seconds, fix_allocator, print_table

fix_allocator()

import numpy as np
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import BertConfig, BertForNextSentencePrediction, PreTrainedTokenizerFast

from hf_summ.evaluation.pair_models import NextSentenceModel
from hf_summ.extractive.consistent import keep_sentences
from hf_summ.extractive.extraction import lexrank_scores, textrank_scores
from hf_summ.extractive.frequencies import tfidf_scores


def made_up_sentences(generator: np.random.Generator, number: int, words: int = 20) -> list[list[str]]:
    """Words of natural frequencies (Zipf's law)."""
    return [[f"w{word}" for word in np.minimum(generator.zipf(1.3, words), 30_000)] for _ in range(number)]


def keep_a_tenth(sentences: list[list[str]]) -> list[int]:
    """The consistent stage without its next-sentence model."""
    costs = [len(sentence) for sentence in sentences]
    return keep_sentences(sentences, costs, max(sum(costs) // 10, 1))


def peak_mebibytes(candidate: Callable[[], object]) -> float:
    """The peak of allocations above the initial level, in MiB."""
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    tracemalloc.reset_peak()
    candidate()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return (peak - before) / 2**20


def measure_ranking(sizes: list[int], rounds: int) -> None:
    """Measure each method for each number of sentences."""
    methods = {
        "consistent": keep_a_tenth,
        "tfidf": tfidf_scores,
        "lexrank": lexrank_scores,
        "textrank": textrank_scores,
    }
    rows = []
    for size in sizes:
        sentences = made_up_sentences(np.random.default_rng(0), size)
        candidates = {name: partial(method, sentences) for name, method in methods.items()}
        seconds = cpu_seconds(candidates, rounds)
        rows += [
            [name, f"{size:,}", f"{seconds[name]:.2f}", f"{peak_mebibytes(candidate):,.0f}"]
            for name, candidate in candidates.items()
        ]
    print_table("A document's sentences of 20 words", ["method", "sentences", "seconds", "peak MiB"], rows)


def saved_model(folder: str, width: int, layers: int) -> str:
    """A BERT with random weights and the vocabulary of `made_up_sentences`."""
    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *(f"w{number}" for number in range(1, 30_001))]
    tokenizer = Tokenizer(models.WordLevel({name: place for place, name in enumerate(names)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]").save_pretrained(folder)
    sizes = {"hidden_size": width, "num_hidden_layers": layers, "num_attention_heads": width // 64}
    config = BertConfig(vocab_size=len(names), intermediate_size=4 * width, **sizes)
    BertForNextSentencePrediction(config).save_pretrained(folder)
    return folder


def measure_pairs(number: int, width: int, layers: int, rounds: int) -> None:
    """Measure pairs of sentences of 3 to 60 words, in sorted batches and one by one."""
    generator = np.random.default_rng(0)
    texts = [" ".join(made_up_sentences(generator, 1, words)[0]) for words in generator.integers(3, 60, 2 * number)]
    pairs = list(zip(texts[::2], texts[1::2], strict=True))
    with tempfile.TemporaryDirectory() as folder:
        judge = NextSentenceModel(saved_model(folder, width, layers))
    seconds = cpu_seconds(
        {"in batches, sorted by length": lambda: judge(pairs), "one by one": lambda: [judge([pair]) for pair in pairs]},
        rounds,
    )
    rows = [[name, f"{number / value:,.0f}"] for name, value in seconds.items()]
    print_table(f"{number} pairs, a BERT of {layers} layers, {width} wide", ["pairs", "pairs per second"], rows)


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sentences", type=int, nargs="+", default=[1000, 5000], help="Sizes (default: 1000 5000)")
    parser.add_argument("--pairs", type=int, default=200, help="Number of pairs (default: 200)")
    parser.add_argument("--width", type=int, default=256, help="Width of BERT (default: 256)")
    parser.add_argument("--layers", type=int, default=4, help="Layers of BERT (default: 4)")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    torch.manual_seed(0)
    measure_ranking(arguments.sentences, arguments.rounds)
    measure_pairs(arguments.pairs, arguments.width, arguments.layers, arguments.rounds)


if __name__ == "__main__":
    main()
