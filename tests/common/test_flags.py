"""Command line flags declared once."""

import argparse
from dataclasses import dataclass

import pytest

from hf_summ.common.flags import add_flags, flag, names


@dataclass
class Told:
    file: str | None = flag("data", "what is read", unset="nothing")
    beams: int | None = flag("decoding", "beams", default=4)
    rates: list = flag("training", "rates", default=["a", "b"])


def test_flag_is_a_field_with_its_help_and_kinds():
    fields = Told.__dataclass_fields__
    assert fields["file"].metadata["kinds"] == {"data"}
    helps = [field.metadata["help"] for field in fields.values()]
    assert helps == ["what is read (default: nothing)", "beams (default: 4)", "rates (default: a b)"]
    assert names(Told) == ("file", "beams", "rates")
    first, second = Told(), Told()
    first.rates.append("c")
    assert (first.file, first.beams, second.rates) == (None, 4, ["a", "b"])


@pytest.mark.parametrize("kinds", ["", "decodin", "data decodin"])
def test_flag_without_a_kind_that_exists_is_refused(kinds):
    with pytest.raises(ValueError, match=r"'beams' is '.*', but must be one or more of data, model, training"):
        flag(kinds, "beams", default=1)


def test_flag_without_a_default_says_what_happens_then():
    with pytest.raises(ValueError, match="'beams' has no default: describe with `unset` what happens without it"):
        flag("decoding", "beams")


def test_flags_become_options_of_a_command():
    @dataclass
    class Read:
        file: str | None = flag("data", "what is read", unset="nothing")
        score: int | None = flag("data", "least score", unset="3")

    parser = argparse.ArgumentParser()
    add_flags(parser, Read)
    assert vars(parser.parse_args(["--score", "4"])) == {"file": None, "score": 4}
    assert "least score (default: 3)" in parser.format_help()
