"""Model cards of runs whose folders, files, columns and prefixes have unusual names."""

import re

import yaml
from datasets import Dataset
from hypothesis import strategies as st

from hf_summ.training.loop.trainer import SummarizationTrainer
from hf_summ.training.parsing import parse_arguments
from hf_summ.training.results.cards import make_card
from hf_summ.training.results.reports import Scorer
from tests.doors import models
from tests.doors import strategies as our
from tests.doors.outcomes import door, tried

# marks of YAML, Markdown, Python and the shell
_MARKS = r"""a no 1e3 true " ' \ ` | ~ _ # - : *a* [a](b) <b> &lt; $(ls) %s é 東京 """.split()
_MARKS += [" ", ": ", "- ", "{{ 1 }}"]
_NAME = st.lists(st.sampled_from(_MARKS), min_size=1, max_size=4).map("".join)


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
        return make_card(trainer, arguments, splits, 40, scores, scorer)

    card = tried(make)
    assert str(folder) not in card
    assert "hf_secret" not in card
    front, text = card.removeprefix("---\n").split("\n---\n", 1)
    metadata = yaml.safe_load(front)
    (entry,) = metadata["model-index"]
    assert {entry["name"], *(part["dataset"]["name"] for part in entry["results"])} == {output, train}
    assert metadata["language"] == language
    # the settings are those that were given
    (block,) = re.findall(r"^```yaml\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    settings = yaml.safe_load(block)
    shown = {"train_file": train, "source_prefix": prefix, "text_column": column, "language": language}
    assert settings.items() >= shown.items()
