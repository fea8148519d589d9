"""Model cards of runs whose folders, files, data sets, columns, prefixes and languages have hostile names."""

import ast
import random
import re
import shlex
from itertools import pairwise
from pathlib import Path
from typing import Any

import yaml
from markdown_it import MarkdownIt
from markdown_it.token import Token

from hf_summ.common.messages import one_line
from hf_summ.models.text_documents import readable
from hf_summ.training.cards import SERVICE, Card, make_card
from hf_summ.training.parsing import parse_arguments
from hf_summ.training.scores import Scorer
from hf_summ.training.trainer import SummarizationTrainer
from tests.torture import values
from tests.torture.cases import Case
from tests.torture.checks import first_problem
from tests.torture.workshop import Workshop

_MARKS = (
    *("\n```\n", "\n---\n", "\n# b", "\t", "\r", "\x85", "\u2028", "\udc80", "\u202e", "\x1b[31m", "é", "東京", " "),
    *r"""a no 1e3 null " ' \ ` ``` | ~ _ # - : *a* [a](b) ![a](b) <b> <!-- &lt; $(ls) %s """.split(),
    *("{{ 1 }}", "{% raw %}", '"""', '"); print("ran") #', ": ", "- "),
)
_SECTIONS = ["Use", "Intended use and limits", "Data", "Results", "Training", "License", "Versions"]


def make(draw: random.Random, shop: Workshop, folder: Path) -> Case:
    """The card of a run, without its training."""
    model_type = draw.choice(("bart", "gdlf"))
    output, train, test, prefix, column = (_name(draw) for _ in range(5))
    argv = ["--output_dir", str(folder / output), "--use_cpu", "--report_to", "none", "--hub_token", "hf_secret"]
    argv += ["--source_prefix", prefix, "--text_column", column]
    started, is_folder = _name(draw), draw.random() < 0.5
    if draw.random() < 0.3:
        (folder / "models" / started).mkdir(parents=True)
        argv += ["--model_name_or_path", str(folder / "models" / started)]
    if is_folder:
        (folder / "data" / train).mkdir(parents=True)
        argv += ["--dataset_name", str(folder / "data" / train), f"--dataset_config_name={_name(draw)}"]
    else:
        train, test = f"{train}-1.jsonl", f"{test}-2.jsonl"
        for split, name in (("train", train), ("test", test)):
            (folder / name).write_text('{"document": "a", "summary": "b"}\n')
            argv += [f"--{split}_file={folder / name}"]
    language = draw.choice((None, "en", "de", "no", "zh", "yi", values.word(draw, "on", "1", "", _name(draw))))
    argv += [] if language is None else ["--language", language]
    # as for every flag, null means none
    language = None if language == "null" else language
    argv += draw.choice(([], ["--license", draw.choice(("mit", "cc0-1.0", "no"))]))
    # null removes a flag
    named_in_code = [one_line(readable(name)) for name in (column, train) if name != "null"]
    shown = [prefix, train, *([] if is_folder else [test])]

    def attempt() -> Card:
        arguments = parse_arguments(argv)
        arguments.corpus.check()
        model, processor = shop.trained(model_type)
        trainer = SummarizationTrainer(model, arguments.training, processing_class=processor)
        scorer = Scorer(["rouge", "novelty"], "rouge155", arguments.data.language)
        scores = {f"predict_{name}": 100 * draw.random() for names in scorer.columns for name in names}
        splits = {"train": range(3), "test": range(2)}
        return make_card(trainer, arguments, splits, 40, scores, scorer, argv)

    def problem(card: Card) -> str | None:
        front, text = card.text.removeprefix("---\n").split("\n---\n", 1)
        metadata, tokens = yaml.safe_load(front), MarkdownIt("commonmark").enable("table").parse(text)
        (entry,) = metadata["model-index"]
        named = [entry["name"], *(part["dataset"]["name"] for part in entry["results"]), metadata.get("language")]
        expected = [one_line(readable(output)), one_line(readable(train if is_folder else test)), language]
        parts = [child for token in tokens for child in token.children or ()]
        codes = [part.content.strip() for part in parts if part.type == "code_inline"]
        lost = [name for name in shown if " ".join(readable(name).splitlines()).strip() not in codes]
        fences = [token for token in tokens if token.type == "fence"]
        return first_problem(
            None if named == expected else f"the names in the metadata are {named}, not {expected}",
            f"{lost[0]!r} is none of {codes}" if lost else None,
            _headings_problem(tokens, expected[0]),
            _code_problem(fences, readable(output), named_in_code),
            _command_problem([fence.content for fence in fences if not fence.info], argv, folder),
            "a path or a secret is in the card" if str(folder) in card.text or "hf_secret" in card.text else None,
        )

    return Case(f"{model_type} {argv}", attempt, problem)


def _name(draw: random.Random) -> str:
    """A name that a file can have."""
    return "".join(draw.choices(_MARKS, k=draw.choice((1, 2, 4))))


def _headings_problem(tokens: list[Token], name: str) -> str | None:
    found: dict[str, list[str]] = {}
    for opening, content in pairwise(tokens):
        if opening.type == "heading_open":
            found.setdefault(opening.tag, []).append("".join(part.content for part in content.children or ()))
    return None if (found["h1"], found["h2"]) == ([name], _SECTIONS) else f"the headings are {found}"


def _code_problem(fences: list[Token], name: str, data: list[str]) -> str | None:
    blocks = [fence.content for fence in fences if fence.info == "python"]
    calls = [node for block in blocks for node in ast.walk(ast.parse(block)) if isinstance(node, ast.Call)]
    found: list[Any] = [keyword.value for call in calls for keyword in call.keywords if keyword.arg == "model"]
    found += [call.args[0] for call in calls if ast.unparse(call.func).endswith(".from_pretrained")]
    texts = {ast.literal_eval(value) for value in found if not isinstance(value, ast.Call)}
    documents = re.findall("^document = (.*)$", "\n".join(blocks), flags=re.MULTILINE)
    is_shown = all(part in ast.literal_eval(document) for part in data for document in documents)
    is_whole = len(documents) == len(blocks) == len(fences) - 1
    return None if is_whole and is_shown and texts == {name, SERVICE} else f"the code is {blocks}"


def _command_problem(blocks: list[str], argv: list[str], folder: Path) -> str | None:
    (block,) = blocks
    # shlex takes the end of a line for a word
    found = [token for token in shlex.split(block) if token != "\n"]
    # Markdown has one end of line
    names = [re.sub(f"{re.escape(str(folder))}/(data/|models/)?", "", readable(token)) for token in argv]
    names = [re.sub("\r\n?", "\n", name) for name in names]
    place = names.index("--hub_token")
    expected = ["hf-summ", "train", *names[:place], *names[place + 2 :]]
    expected = [token for token in expected if token != "\n"]
    return None if found == expected else f"the command is {found}, but was {expected}"
