"""`hf-summ votes`: sheets of hostile texts, and votes spoiled by voters or programs."""

import csv
import dataclasses
import io
import json
import math
import re
from typing import Any

from hypothesis import strategies as st

from hf_summ.votes import PROTOCOLS, make_sheets, read_key
from tests.conftest import SENTENCES
from tests.doors import strategies
from tests.doors.outcomes import check_scores, command, door, strict_json, tried, unchanged

# markup that a page must escape, and formulas that a spreadsheet must not compute
_MARKUP = (
    "<script>alert(1)</script>",
    "</script><script>",
    '" onload="alert(1)',
    "<!--",
    "{{ 7 * 7 }}",
    "{% raw %}",
    "<img src=x onerror=alert(1)>",
    "=1+1",
    "＝1＋1",
    "@SUM(A1)",
    "-1",
    "]]>",
    "</div></main>",
    "&lt;b&gt;",
)
# with these characters a formula begins
_FORMULA = tuple("=+-@\t\r＝＋－＠")
_TEXT = strategies.texts | st.builds(str.__add__, st.sampled_from(("", " ", "A sentence. ")), st.sampled_from(_MARKUP))
_PRESETS = st.sampled_from(("gdlf", "highlight_transformer", "sagcopy"))
_NAMES = st.sampled_from(("fluency", "a b", "é", "=1", "<b>", "A", "sheet", "summary A", "\0", "")) | _TEXT
_MAKE = strategies.choices(
    "voters=2|3|0|-1|x documents=1|0|7 separator=none|<b> key=sheets/key.json|key.txt|no/key.json"
)
_CHOICES = st.sampled_from(("A", "B", "tie", "a", " b ", "TIE", ""))
_BAD_CHOICES = st.sampled_from(("C", "A\nB", 1, None, True, ["A"], {"a": 1}, "x" * 3000, "\ud800", math.nan))


@door(
    data=st.data(),
    folder=strategies.folders,
    numbers=strategies.mostly(st.sampled_from(((3, 3, 3), (1, 1, 1, 1))), st.just((3, 2, 3))),
    flags=strategies.few(_MAKE, 1),
    preset=_PRESETS,
    aspects=strategies.mostly(st.just([]), st.lists(st.builds("{}={}".format, _NAMES, _TEXT), max_size=2)),
)
def test_make(data, folder, numbers, flags, preset, aspects):
    # a name may have bytes that are not text
    prefix = data.draw(strategies.mostly(st.just(""), st.just("\udcff")))
    files = [folder / f"{prefix}{number}.jsonl" for number in range(len(numbers))]
    for file, number in zip(files, numbers, strict=True):
        column = "document" if file is files[-1] else "prediction"
        rows = [{column: data.draw(_TEXT), "id": row} for row in range(number)]
        file.write_bytes(data.draw(strategies.written(rows, "jsonl")))
    sheets, key = folder / "sheets", folder / flags.pop("key", "key.json")
    settings = {"voters": 1, "documents": 1, "preset": preset, **flags, "output": sheets, "key": key}
    argv = ["votes", "make", "--systems", *files[:-1], "--sources", files[-1]]
    argv += [f"--aspect={aspect}" for aspect in aspects]
    argv += [f"--{name}={value}" for name, value in settings.items()]
    try:
        with unchanged(*files):
            tried(lambda: command(*argv))
    finally:
        # no sheets without a key
        assert key.is_file() or not list(folder.rglob("*.html"))
    made = read_key(key)
    expected_names = set()
    for sides in made.sheets.values():
        expected_names |= {f"{sides.voter}.html", f"{sides.voter}.csv"}
    assert {path.name for path in sheets.iterdir() if path != key} == expected_names
    for path in sheets.glob("*.html"):
        page = path.read_text(encoding="utf-8")
        # whatever the texts are, there is one script, and a section for each item and a last one
        counts = [len(re.findall(f"<{tag}\\b", page)) for tag in ("script", "main", "img")]
        assert counts == [1, 1, 0]
        assert page.count("<section") == len(made.items) + 1
    for path in sheets.glob("*.csv"):
        table = path.read_text(encoding="utf-8-sig")
        rows = list(csv.DictReader(io.StringIO(table, newline=""), strict=True))
        assert sorted(row["item"] for row in rows) == sorted(made.items)
        for row in rows:
            assert not any(text and text.startswith(_FORMULA) for text in row.values())
            assert not any(row[aspect] for aspect in made.protocol.aspects)


@st.composite
def _votes(draw, key, sheet: str, is_spoiled: bool):
    """The rows of a sheet's votes."""
    choices = st.fixed_dictionaries(dict.fromkeys(key.protocol.aspects, _CHOICES))
    rows = [{"sheet": sheet, "item": item, **draw(choices)} for item in key.items]
    rows = rows[: draw(st.integers(0, 6))]
    if is_spoiled and rows:
        row = draw(st.sampled_from(rows))
        # a vote on an unknown item, one of another sheet, and a second one
        more_rows = [{**row, "item": "i000000000000"}, {**row, "sheet": "another"}, dict(row)]
        rows += draw(strategies.mostly(st.just([]), st.sampled_from([[vote] for vote in more_rows])))
        column = draw(st.sampled_from((*row, "more", "")))
        row[column] = draw(_BAD_CHOICES | strategies.storable)
    return rows


@door(
    data=st.data(),
    folder=strategies.folders,
    systems=st.sampled_from((2, 3)),
    preset=_PRESETS,
    is_spoiled=st.booleans(),
)
def test_collect(data, folder, systems, preset, is_spoiled):
    protocol = dataclasses.replace(PROTOCOLS[preset], documents=5, voters=data.draw(st.sampled_from((1, 2, 3))))
    texts = {f"system {number}": [f"{number} says {row}." for row in range(5)] for number in range(systems)}
    _, key = make_sheets(texts, SENTENCES, protocol, seed=0)
    key_file, report = folder / "key.json", folder / "report.json"
    key_file.write_text(key.to_json(), encoding="utf-8")
    number_of_votes, files = 0, []
    for number, sheet in enumerate(key.sheets):
        votes = data.draw(_votes(key, sheet, is_spoiled))
        for row in votes:
            number_of_votes += sum(str(row.get(aspect) or "").strip() != "" for aspect in protocol.aspects)
        # without rows, a CSV file would have no columns
        ending = data.draw(st.sampled_from(("json", "csv"))) if votes else "json"
        content = data.draw(strategies.written(votes, ending))
        if is_spoiled:
            content = data.draw(strategies.mostly(st.just(content), strategies.spoiled(content)))
        file = folder / f"votes-{number}.{ending}"
        file.write_bytes(content)
        files.append(file)
    options = []
    if is_spoiled:
        content = json.loads(key_file.read_bytes())
        changed = data.draw(strategies.mostly(st.just(content), strategies.spoiled_json(content)))
        key_file.write_text(json.dumps(changed))
        odd_files = (files * 2, files + [folder / "none.json"], [folder], [key_file], files[:1])
        files = data.draw(strategies.mostly(st.just(files), st.sampled_from(odd_files)))
        options = data.draw(
            strategies.mostly(st.just([]), strategies.few_flags("complete resamples=1|0|-1|x seed=-1|7", 1))
        )
    argv = ["votes", "collect", *files, "--key", key_file, "--json", report, "--resamples", 50, *options]
    with unchanged(*folder.iterdir()):
        tried(lambda: command(*argv))
    number_of_counted_votes = 0
    for pair in strict_json(report.read_bytes())["pairs"]:
        for figures in pair["aspects"].values():
            _check_figures(figures)
            number_of_counted_votes += figures["wins"] + figures["losses"] + figures["ties"]
    if not is_spoiled:
        assert number_of_counted_votes == number_of_votes


def _check_figures(figures: dict[str, Any]) -> None:
    preference, sides = figures["preference"] or {}, figures["sides"]
    assert sides["A"] + sides["B"] == figures["wins"] + figures["losses"]
    assert min(figures["wins"], figures["losses"], figures["ties"]) >= 0
    check_scores((preference.get("mean"), *(preference.get("interval") or ())), -100, 100)
    check_scores((preference.get("p_value"), sides["p_value"]), 1e-12, 1)
    check_scores((figures["kappa"], figures["alpha"], figures["ordinal_alpha"]), -1, 1)
