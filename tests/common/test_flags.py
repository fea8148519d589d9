"""Command line flags declared once."""

import argparse
import re
from dataclasses import dataclass
from typing import Literal

import pytest

from hf_summ.common.flags import add_flags, check_flags, flag, flags_in, names, values_of, without_effect
from hf_summ.models.checks import Range


@dataclass
class Declared:
    file: str | None = flag("data", "what is read", unset="nothing", metavar="FILE")
    beams: int = flag("decoding", "beams", default=4, range=Range(1, 9))
    rates: list[str] = flag("training", "rates", default=["a", "b"], nargs="+")
    mode: Literal["one", "two"] | None = flag("training", "mode", unset="none", needs=("file", "beams=2"))
    early: bool | None = flag("decoding", "early", unset="the model's", unless=("beams=1",))
    fast: bool = flag("reporting", "fast", default=False, unset="do not", unless=("rates=c", "mode"))
    output: str = flag("reporting", "output", required=True)


@pytest.fixture
def parse():
    parser = argparse.ArgumentParser()
    add_flags(parser, Declared)
    return lambda line: parser.parse_args(["--output", "x", *line.split()])


def test_flag_is_a_field_with_its_help_and_effects():
    fields = Declared.__dataclass_fields__
    assert fields["file"].metadata["flag"].effects == "data"
    helps = [field.metadata["help"] for field in fields.values()]
    assert helps[:3] == ["what is read (default: nothing)", "beams (default: 4)", "rates (default: a b)"]
    # a required flag has no default
    assert helps[-1] == "output"
    assert names(Declared) == ("file", "beams", "rates", "mode", "early", "fast", "output")
    first, second = Declared(), Declared()
    first.rates.append("c")
    assert (first.file, first.beams, second.rates) == (None, 4, ["a", "b"])


def test_flags_become_options_of_a_command(parse):
    values = {"file": None, "beams": 4, "rates": ["a", "b"], "mode": None, "early": None, "fast": False, "output": "x"}
    assert vars(parse("")) == values
    values |= {"beams": 2, "rates": ["c", "d"], "mode": "two", "early": False, "fast": True}
    assert values_of(parse("--beams 2 --rates c d --mode two --no-early --fast"), Declared) == values
    with pytest.raises(SystemExit):
        parse("--mode three")


CASES_OF_WRONG_FLAGS = [
    ("--beams 0", "--beams 0: must be at least 1"),
    ("--beams 10", "--beams 10: must be at most 9"),
    ("--mode one", "--mode one: needs --file or --beams 2"),
    ("--early --beams 1", "--early: has no effect beside --beams 1: omit one of them"),
    ("--fast --rates a c", "--fast: has no effect beside --rates a c: omit one of them"),
    ("--fast --mode one --file f", "--fast: has no effect beside --mode one: omit one of them"),
]


@pytest.mark.parametrize(("line", "problem"), CASES_OF_WRONG_FLAGS)
def test_range_and_conditions_are_checked(parse, line, problem):
    with pytest.raises(ValueError, match=f"^{re.escape(problem)}$"):
        check_flags(parse(line), flags_in(Declared))


CASES_OF_FLAGS_WITH_EFFECT = ["", "--mode one --file f", "--mode one --beams 2", "--no-early --beams 1", "--beams 9"]


@pytest.mark.parametrize("line", CASES_OF_FLAGS_WITH_EFFECT)
def test_what_has_an_effect_passes(parse, line):
    check_flags(parse(line), flags_in(Declared))


def test_remedy_may_name_the_default_of_the_other_flag():
    flags = flags_in(Declared)
    cases = [({"fast": True, "mode": "one", "file": "f"}, "--mode null"), ({"early": True, "beams": 1}, "--beams 4")]
    for settings, remedy in cases:
        (message,) = without_effect(settings, flags, "give {unset}").values()
        assert message.endswith(f": give {remedy}")
