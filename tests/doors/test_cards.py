"""Model cards of runs whose folders, files, columns and prefixes have hostile names."""

import ast
import shlex

import yaml
from datasets import Dataset
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from hf_summ.common.messages import one_line
from hf_summ.models.text_documents import readable
from hf_summ.training.loop.trainer import SummarizationTrainer
from hf_summ.training.parsing import parse_arguments
from hf_summ.training.results.cards import SERVICE, make_card
from hf_summ.training.results.reports import Scorer
from tests.doors import models
from tests.doors import strategies as our
from tests.doors.outcomes import door, tried

# marks of YAML, Markdown, Python and the shell
_MARKS = (
    *("\n```\n", "\n---\n", "\n# b", "\t", "\r", "\x85", "\u2028", "\udc80", "\u202e", "\x1b[31m", "é", "東京", " "),
    *r"""a no 1e3 null " ' \ ` ``` | ~ _ # - : *a* [a](b) ![a](b) <b> <!-- &lt; $(ls) %s """.split(),
    *("{{ 1 }}", "{% raw %}", '"""', '"); print("ran") #', ": ", "- "),
)
_NAME = st.lists(st.sampled_from(_MARKS), min_size=1, max_size=4).map("".join)
_SECTIONS = ["Use", "Intended use and limits", "Data", "Results", "Training", "License", "Versions"]


@door(folder=our.folders, names=st.tuples(*[_NAME] * 4), language=our.one_of("en", "de", "no", "zh", "yi"))
def test_cards(folder, names, language):
    output, train, prefix, column = names
    train = f"{train}-1.jsonl"
    (folder / train).write_text('{"document": "a", "summary": "b"}\n')
    argv = [f"--train_file={folder / train}", f"--test_file={folder / train}", "--language", language, "--use_cpu"]
    argv += ["--source_prefix", prefix, "--text_column", column, "--report_to", "none", "--hub_token", "hf_secret"]
    argv += ["--output_dir", str(folder / output)]

    def make():
        arguments = parse_arguments(argv)
        model, processor = models.model("gdlf")
        trainer = SummarizationTrainer(model, arguments.training, processing_class=processor)
        scorer = Scorer(["rouge", "novelty"], "rouge155", arguments.data.language)
        scores = {f"predict_{name}": 12.5 for columns in scorer.columns for name in columns}
        splits = {split: Dataset.from_dict({"id": range(rows)}) for split, rows in (("train", 3), ("test", 2))}
        return make_card(trainer, arguments, splits, 40, scores, scorer, argv).text

    card = tried(make)
    assert str(folder) not in card
    assert "hf_secret" not in card
    front, text = card.removeprefix("---\n").split("\n---\n", 1)
    metadata, tokens = yaml.safe_load(front), MarkdownIt("commonmark").enable("table").parse(text)
    (entry,) = metadata["model-index"]
    title, data = one_line(readable(output)), one_line(readable(train))
    assert {entry["name"], *(part["dataset"]["name"] for part in entry["results"])} == {title, data}
    assert metadata["language"] == language
    # no name begins a heading, a fence, or code
    tags = [token.tag for token in tokens if token.type == "heading_open"]
    assert (tags.count("h1"), tags.count("h2")) == (1, len(_SECTIONS))
    codes = [part.content.strip() for token in tokens for part in token.children or () if part.type == "code_inline"]
    assert {" ".join(readable(name).splitlines()).strip() for name in (prefix, train)} <= {*codes}
    fences = [token for token in tokens if token.type == "fence"]
    nodes = [node for fence in fences if fence.info == "python" for node in ast.walk(ast.parse(fence.content))]
    values = [node.value for node in nodes if isinstance(node, ast.keyword) and node.arg == "model"]
    assert {one.value for one in values if isinstance(one, ast.Constant)} <= {readable(output), SERVICE}
    # shlex takes the end of a line for a word, and Markdown has one end of line
    (shown,) = (shlex.split(fence.content) for fence in fences if not fence.info)
    given = [readable(token).replace(f"{folder}/", "").replace("\r\n", "\n").replace("\r", "\n") for token in argv]
    secret = given.index("--hub_token")
    expected = ["hf-summ", "train", *given[:secret], *given[secret + 2 :]]
    assert [token for token in shown if token != "\n"] == [token for token in expected if token != "\n"]
