"""Rows of `hf-summ summarize --text_column`, compared with the pipeline alone on the same documents.

The pipeline reads them sorted by length, and unsorted. The documents consist of the same words, with lengths as in
news. Measures CPU time in one process, from reading the rows to writing the shards. Run: python benchmarks/offline.py
"""

import argparse
import json
import random
import shutil
import tempfile
from functools import partial
from pathlib import Path

from measuring import cpu_seconds, fix_allocator, print_table

fix_allocator()

import torch
from transformers import BartConfig, BartForConditionalGeneration

from hf_summ import SummarizationPipeline
from hf_summ.data import fit_vocabulary
from hf_summ.data.streams import FileRows
from hf_summ.offline.engines import Work, in_this_process
from hf_summ.offline.run import run_plan
from hf_summ.offline.shards import Plan

WORDS = [f"{start}{end}" for start in "bcdfglmnprst" for end in ("ana", "olo", "eri", "unt", "ister")]


def documents(number: int) -> list[str]:
    """Documents of 20 to 400 words, most of them short."""
    generator = random.Random(0)
    lengths = [min(400, 20 + int(generator.expovariate(1 / 100))) for _ in range(number)]
    return [" ".join(generator.choices(WORDS, k=length)) for length in lengths]


def small_bart(texts: list[str], width: int) -> SummarizationPipeline:
    """A BART with two layers on each side and 512 positions."""
    tokenizer = fit_vocabulary(texts[:200], vocab_size=1000, show_progress=False)
    tokenizer.model_max_length = 512
    sides = {"layers": 2, "ffn_dim": 4 * width, "attention_heads": 4}
    sizes = {f"{side}_{name}": value for side in ("encoder", "decoder") for name, value in sides.items()}
    special = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 2}
    config = BartConfig(vocab_size=len(tokenizer), d_model=width, max_position_embeddings=512, **sizes, **special)
    return SummarizationPipeline(BartForConditionalGeneration(config).eval(), tokenizer=tokenizer)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=512)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--batch_size", type=int, default=16)
    parser.add_argument("--new_tokens", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    torch.manual_seed(0)
    texts = documents(arguments.rows)
    summarizer = small_bart(texts, arguments.width)
    lengths = {"min_new_tokens": arguments.new_tokens, "max_new_tokens": arguments.new_tokens}
    settings = {**lengths, "num_beams": 1}
    with tempfile.TemporaryDirectory() as place:
        rows, output = Path(place) / "rows.jsonl", Path(place) / "out"
        rows.write_text("".join(f"{json.dumps({'text': text})}\n" for text in texts), encoding="utf-8")
        work = Work(lambda: summarizer, settings, arguments.batch_size, "summary")

        def offline() -> None:
            shutil.rmtree(output, ignore_errors=True)
            plan = Plan(FileRows([rows]), "text", None, "summary", arguments.rows, output, "parquet")
            run_plan(plan, {}, partial(in_this_process, work, plan))

        def alone(given: list[str]) -> None:
            summarizer(given, batch_size=arguments.batch_size, **settings)

        candidates = {
            "pipeline, as they are": partial(alone, texts),
            "pipeline, sorted": partial(alone, sorted(texts, key=len, reverse=True)),
            "offline": offline,
        }
        times = cpu_seconds(candidates, arguments.rounds)
    reference = times["pipeline, sorted"]
    table = [[name, f"{len(texts) / time:.1f}", f"{reference / time:.2f}"] for name, time in times.items()]
    title = f"{len(texts)} rows, batches of {arguments.batch_size}, {arguments.new_tokens} new tokens"
    print_table(title, ["what", "rows per second of CPU", "times as fast as sorted"], table)


if __name__ == "__main__":
    main()
