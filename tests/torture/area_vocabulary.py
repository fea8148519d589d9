"""Vocabularies and key phrases from hostile corpora."""

import json
import math
import random
from pathlib import Path
from typing import Any

from hf_summ.data import fit_vocabulary
from hf_summ.data.phrases import fit_phrases
from hf_summ.models.text_phrases import candidates, given_phrases, key_phrases, read_phrases
from tests.torture import values
from tests.torture.cases import Case
from tests.torture.commands import command
from tests.torture.workshop import Workshop


def make(draw: random.Random, shop: Workshop, folder: Path) -> Case:
    """Texts, and a vocabulary fitted to them or phrases found in them."""
    return draw.choice((_vocabulary, _vocabulary, _frequencies, _phrases, _command))(draw, shop, folder)


def _texts(draw: random.Random) -> list[Any]:
    texts: list[Any] = [values.some_text(draw) for _ in range(draw.choice((0, 1, 3, 8)))]
    if texts and draw.random() < 0.06:
        texts[draw.randrange(len(texts))] = values.not_text(draw)
    return texts


def _vocabulary(draw: random.Random, shop: Workshop, folder: Path) -> Case:
    texts, units = _texts(draw), values.word(draw, "subwords", "words", "ideographs", "characters", "bytes")
    size = draw.choice((300, 400, 1000, 6, 7, 262, 261, 0, -1, 10**9, 2.5))
    settings = {
        "lowercase": draw.random() < 0.3,
        "min_frequency": draw.choice((2, 2, 1, 1, 0, -1, 10**9, 1.5)),
        "digits_as_hash": draw.random() < 0.2,
    }
    given = draw.choice((texts, iter(texts), texts[0] if texts else None))

    def problem(tokenizer: Any) -> str | None:
        if len(tokenizer) > size:
            return f"{len(tokenizer)} tokens"
        if isinstance(given, str):
            return "a single text is read as its characters"
        for text in texts:
            ids = tokenizer(text.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))["input_ids"]
            if ids[-1] != tokenizer.eos_token_id or not all(0 <= token < len(tokenizer) for token in ids):
                return f"the ids of {text!r:.80} are {ids!r:.80}"
            tokenizer.decode(ids, skip_special_tokens=True).encode("utf-8")
        return None

    return Case(
        f"{units} {size} {settings} of {given if given is not None and not isinstance(given, list) else texts!r:.300}",
        lambda: fit_vocabulary(given, size, units=units, show_progress=False, **settings),
        problem,
    )


def _frequencies(draw: random.Random, shop: Workshop, folder: Path) -> Case:
    examples: list[Any] = _texts(draw)
    examples = [[text, values.text(draw)] if draw.random() < 0.3 else text for text in examples]
    largest, number = draw.choice((None, 1, 100, 0, -1)), draw.choice((1, 10, 0, -1, 2.5, None))
    length = draw.choice((None, 2, 50, 1, 0, 10**30))

    def fit():
        return fit_phrases(examples, shop.tokenizer, largest, num_phrases=number, max_source_length=length)

    def problem(processor: Any) -> str | None:
        found = processor.document_frequencies
        wrong = {phrase: count for phrase, count in found.items() if not 2 <= count <= len(examples)}
        if wrong or processor.fitted_examples != len(examples):
            return f"{processor.fitted_examples} examples with {wrong}"
        return None if largest is None or len(found) <= largest else f"{len(found)} phrases"

    return Case(f"phrases of {examples!r:.300} {largest} {number} {length}", fit, problem)


def _phrases(draw: random.Random, shop: Workshop, folder: Path) -> Case:
    documents = [values.some_text(draw) for _ in range(draw.choice((1, 2)))]
    found = [phrase for text in documents for phrase, _, _ in candidates(text)][:20]
    names = [draw.choice((values.text(draw), *found)) for _ in range(draw.choice((0, 1, 3)))]
    given: Any = draw.choice((names, {name: values.number(draw) for name in names}, dict.fromkeys(names, 0.5)))
    if draw.random() < 0.2:
        given = draw.choice(
            (json.dumps(given), values.junk(draw), {"a": "b"}, {1: 2}, [1], '{"a":', "NaN", '{"a": NaN}')
        )

    def find():
        read = read_phrases(given)
        chosen = [] if read is None else given_phrases(documents, read)
        return key_phrases(documents, dict.fromkeys(found, 2), 5, 3), chosen

    def problem(results: tuple) -> str | None:
        for phrase in [phrase for result in results for phrase in result]:
            if not math.isfinite(phrase.value):
                return f"a value of {phrase.value}"
            for place, start, end in phrase.spans:
                if not 0 <= start < end <= len(documents[place]):
                    return f"{phrase.text!r} stands from {start} to {end}"
        return None

    return Case(f"{given!r:.200} in {documents!r:.200}", find, problem)


def _command(draw: random.Random, shop: Workshop, folder: Path) -> Case:
    rows = [{"document": values.some_text(draw), "summary": values.some_text(draw)} for _ in range(3)]
    content = "".join(json.dumps(row) + "\n" for row in rows).encode()
    file, output = folder / "train.jsonl", folder / draw.choice(("processor", "train.jsonl", "a/b"))
    file.write_bytes(values.spoiled(draw, content) if draw.random() < 0.4 else content)
    name = draw.choice(("vocabulary", "key-phrases"))
    flags = ["--output", output]
    if name == "vocabulary":
        flags += ["--tags", draw.choice(("none", "none", "none", "pos")), "--units", draw.choice(("words", "subwords"))]
        more = [["--vocab_size", draw.choice((400, 5, -1, "x"))], ["--washing", "lcsts"], ["--min_frequency", 0]]
    else:
        flags += ["--processor", draw.choice((shop.checkpoint("drgd"), shop.checkpoint("drgd"), folder, "nobody/none"))]
        more = [["--num_phrases", draw.choice((0, 3))], ["--max_frequencies", draw.choice((1, -1))]]
    more.append(["--max_source_length", draw.choice((1, 2, 10**30, "nan"))])
    flags += [token for part in more if draw.random() < 0.3 for token in part]

    def problem(_: None) -> str | None:
        return None if (output / "tokenizer.json").is_file() else "no vocabulary and no error"

    return Case(
        f"{name} {[str(flag) for flag in flags]} {content[:200]!r}", lambda: command(name, file, *flags), problem
    )
