"""Rows of `hf-summ summarize`, compared with the pipeline alone on the same documents.

The pipeline reads them sorted by length, and unsorted; a GDLF and a BART of equal size do so in turn. The documents
consist of the same words, with lengths as in news. Measures CPU time in one process, from reading the rows to writing
the shards. Run: python benchmarks/offline.py
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
from peers import bart, small_gdlf

from hf_summ import SummarizationPipeline
from hf_summ.data.files import read_files
from hf_summ.offline.engines import Work, in_this_process
from hf_summ.offline.run import run_plan
from hf_summ.offline.shards import Plan

WORDS = [f"{start}{end}" for start in "bcdfglmnprst" for end in ("ana", "olo", "eri", "unt", "ister")]


def documents(number: int) -> list[str]:
    """Documents of 20 to 400 words, most of them short."""
    generator = random.Random(0)
    lengths = [min(400, 20 + int(generator.expovariate(1 / 100))) for _ in range(number)]
    return [" ".join(generator.choices(WORDS, k=length)) for length in lengths]


def pipelines(texts: list[str], width: int) -> dict[str, SummarizationPipeline]:
    """A GDLF of two layers on each side, and a BART with the same numbers of layers and parameters."""
    sizes = {"d_model": width, "ffn_dim": 4 * width, "fusion_dim": 4 * width}
    ours, processor = small_gdlf(texts[:200], vocab_size=1000, **sizes)
    return {
        "GDLF": SummarizationPipeline(ours, processor=processor),
        "BART": SummarizationPipeline(bart(ours).eval(), tokenizer=processor.tokenizer),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=512)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--batch_size", type=int, default=16)
    parser.add_argument("--new_tokens", type=int, default=20)
    parser.add_argument("--beams", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    torch.manual_seed(0)
    texts = documents(arguments.rows)
    summarizers = pipelines(texts, arguments.width)
    lengths = {"min_new_tokens": arguments.new_tokens, "max_new_tokens": arguments.new_tokens}
    settings = {**lengths, "num_beams": arguments.beams}
    with tempfile.TemporaryDirectory() as place:
        rows, output = Path(place) / "rows.jsonl", Path(place) / "out"
        rows.write_text("".join(f"{json.dumps({'text': text})}\n" for text in texts), encoding="utf-8")

        def offline(summarizer: SummarizationPipeline) -> None:
            shutil.rmtree(output, ignore_errors=True)
            work = Work(lambda: summarizer, settings, arguments.batch_size)
            plan = Plan(read_files(str(rows)), "text", None, "summary", arguments.rows, output, "parquet")
            run_plan(plan, {}, partial(in_this_process, work, plan))

        def alone(summarizer: SummarizationPipeline, given: list[str]) -> None:
            summarizer(given, batch_size=arguments.batch_size, **settings)

        candidates = {}
        for name, summarizer in summarizers.items():
            candidates[f"{name}: pipeline, as they are"] = partial(alone, summarizer, texts)
            candidates[f"{name}: pipeline, sorted"] = partial(alone, summarizer, sorted(texts, key=len, reverse=True))
            candidates[f"{name}: offline"] = partial(offline, summarizer)
        times = cpu_seconds(candidates, arguments.rounds)
    table = [
        [name, f"{len(texts) / time:.1f}", f"{times[name.partition(':')[0] + ': pipeline, sorted'] / time:.2f}"]
        for name, time in times.items()
    ]
    written = f"{arguments.new_tokens} new tokens, {arguments.beams} beams"
    title = f"{len(texts)} rows, batches of {arguments.batch_size}, {written}"
    print_table(title, ["what", "rows per second of CPU", "times as fast as its pipeline, sorted"], table)


if __name__ == "__main__":
    main()
