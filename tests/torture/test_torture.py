"""The short form of the torture: several hundred hostile inputs; each must be sensible or clear."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from huggingface_hub.utils import are_progress_bars_disabled, disable_progress_bars, enable_progress_bars

from tests.torture.areas import AREAS
from tests.torture.cases import Name
from tests.torture.judge import Verdict
from tests.torture.running import run
from tests.torture.workshop import Workshop

PAGE = Path(__file__).parents[2] / "docs" / "robustness.md"
# per area; the seed differs from that of the long form, so that both together try more
CASES, SEED = 24, 1000
# areas that represent all in `make test`
_REPRESENTATIVE = ("texts", "checkpoints", "requests")


@pytest.fixture(scope="module")
def shop() -> Iterator[Workshop]:
    made = Workshop()
    yield made
    made.close()


@pytest.fixture
def no_bars():
    before = are_progress_bars_disabled()
    disable_progress_bars()
    yield
    if not before:
        enable_progress_bars()


@pytest.mark.parametrize(
    "area", [pytest.param(area, marks=() if area in _REPRESENTATIVE else pytest.mark.thorough) for area in AREAS]
)
def test_hostile_inputs(area, shop, no_bars):
    found = [run(Name(area, SEED, index), shop) for index in range(CASES)]
    bad = [
        f"{tried.outcome.verdict}: {tried.outcome.told}\n    {tried.told}\n    again: python tests/torture --case "
        f"{tried.name}"
        for tried in found
        if tried.outcome.is_bad
    ]
    assert not bad, "\n".join(bad)
    # otherwise the area would be too tame, or all its inputs would be refused
    assert {tried.outcome.verdict for tried in found} == {Verdict.SENSIBLE, Verdict.CLEAR}


def test_case_is_made_again_from_its_name(shop, no_bars):
    for area in AREAS:
        name = Name(area, SEED, 1)
        # names of folders differ
        one, other = (re.sub(r"torture_\w+|0x\w+", "", str(run(name, shop)[1:3])) for _ in range(2))
        assert one == other


def test_long_form_found_nothing():
    last = next(line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| all"))
    _, sensible, clear, *bad, cases = [cell.strip().replace(",", "") for cell in last.strip("|").split("|")]
    assert {*bad} == {"0"}
    assert int(cases) >= 20_000
    assert min(int(sensible), int(clear)) > int(cases) / 5
