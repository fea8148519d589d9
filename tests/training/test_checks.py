"""Licenses are identifiers of the Hub."""

import re

import pytest

from hf_summ.training.arguments import SummarizationTrainingArguments
from hf_summ.training.checks import LICENSES, check_license


def test_identifiers_are_written_once_and_as_the_hub_writes_them():
    assert len(set(LICENSES)) == len(LICENSES)
    assert {"apache-2.0", "mit", "cc-by-nc-sa-4.0", "openrail++", "other"} < {*LICENSES}
    assert all(name == name.lower() for name in LICENSES)
    for name in LICENSES:
        check_license(name)


@pytest.mark.parametrize(
    ("given", "hint"),
    [
        ("Apache-2.0", "; did you mean apache-2.0?"),
        ("cc-by-nc-4", "; did you mean cc-by-nc-4.0?"),
        ("mine", "; did you mean"),
        ("zzzz", "; see https://huggingface.co/docs/hub/repositories-licenses"),
    ],
)
def test_other_names_are_refused(tmp_path, given, hint):
    with pytest.raises(ValueError, match=re.escape(f"--license {given}: not a license identifier of the Hub{hint}")):
        SummarizationTrainingArguments(output_dir=str(tmp_path), license=given, report_to=["none"])
