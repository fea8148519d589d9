"""Model cards of runs whose folders, files, columns and prefixes have unusual names."""

import re

import yaml
from datasets import Dataset
from hypothesis import strategies as st

from hf_summ.training.loop.trainer import SummarizationTrainer
from hf_summ.training.parsing import parse_arguments
from hf_summ.training.results.cards import make_card
from hf_summ.training.results.reports import Scorer
from tests.doors import models, strategies
from tests.doors.outcomes import door, tried

# marks of YAML, Markdown, Python and the shell
_MARKS = r"""a no 1e3 true " ' \ ` | ~ _ # - : *a* [a](b) <b> &lt; $(ls) %s é 東京 """.split()
_MARKS += [" ", ": ", "- ", "{{ 1 }}"]
_NAME = st.lists(st.sampled_from(_MARKS), min_size=1, max_size=4).map("".join)
_NAMES = st.tuples(_NAME, _NAME, _NAME, _NAME)


@door(folder=strategies.folders, names=_NAMES, language=strategies.one_of("en", "de", "no", "zh", "yi"))
def test_cards(folder, names, language):
    output_name, file_stem, prefix, text_column = names
    file_name = f"{file_stem}-1.jsonl"
    path = folder / file_name
    path.write_text('{"document": "a", "summary": "b"}\n')
    argv = [f"--train_file={path}", f"--test_file={path}", "--language", language, "--use_cpu"]
    argv += ["--source_prefix", prefix, "--text_column", text_column, "--report_to", "none", "--hub_token", "hf_secret"]
    argv += ["--output_dir", str(folder / output_name)]

    def make():
        arguments = parse_arguments(argv)
        model, processor = models.model("gdlf")
        trainer = SummarizationTrainer(model, arguments.training, processing_class=processor)
        scorer = Scorer(["rouge", "novelty"], "rouge155", arguments.data.language)
        scores = {}
        for columns in scorer.columns:
            scores |= {f"predict_{name}": 12.5 for name in columns}
        splits = {"train": Dataset.from_dict({"id": range(3)}), "test": Dataset.from_dict({"id": range(2)})}
        return make_card(trainer, arguments, splits, 40, scores, scorer)

    card = tried(make)
    # neither the folder nor the token is published
    assert str(folder) not in card
    assert "hf_secret" not in card
    front, text = card.removeprefix("---\n").split("\n---\n", 1)
    metadata = yaml.safe_load(front)
    (entry,) = metadata["model-index"]
    assert entry["name"] == output_name
    assert {result["dataset"]["name"] for result in entry["results"]} == {file_name}
    assert metadata["language"] == language
    # the card shows the settings of the command line
    (block,) = re.findall(r"^```yaml\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    settings = yaml.safe_load(block)
    expected = {"train_file": file_name, "source_prefix": prefix, "text_column": text_column, "language": language}
    assert settings.items() >= expected.items()
