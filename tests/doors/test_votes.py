"""`hf-summ votes`: sheets of hostile texts, and votes spoiled by voters or programs."""

import csv
import dataclasses
import io
import json
import math
import re

from hypothesis import strategies as st

from hf_summ.votes import PROTOCOLS, make_sheets, read_key
from tests.conftest import SENTENCES
from tests.doors import strategies as our
from tests.doors.outcomes import check_scores, command, door, strict_json, tried, unchanged

# markup that a page must escape, and formulas that a spreadsheet must not compute
_MARKUP = (
    *("<script>alert(1)</script>", "</script><script>", '" onload="alert(1)', "<!--", "{{ 7 * 7 }}", "{% raw %}"),
    *("<img src=x onerror=alert(1)>", "=1+1", "＝1＋1", "@SUM(A1)", "-1", "]]>", "</div></main>", "&lt;b&gt;"),
)
_FORMULA = tuple("=+-@\t\r＝＋－＠")
_TEXT = our.texts | st.builds(str.__add__, st.sampled_from(("", " ", "A sentence. ")), st.sampled_from(_MARKUP))
_PRESETS = st.sampled_from(("gdlf", "highlight_transformer", "sagcopy"))
_NAMES = st.sampled_from(("fluency", "a b", "é", "=1", "<b>", "A", "sheet", "summary A", "\0", "")) | _TEXT
_MAKE = our.choices("voters=2|3|0|-1|x documents=1|0|7 separator=none|<b> key=sheets/key.json|key.txt|no/key.json")
_CHOICES = st.sampled_from(("A", "B", "tie", "a", " b ", "TIE", ""))
_BAD_CHOICES = st.sampled_from(("C", "A\nB", 1, None, True, ["A"], {"a": 1}, "x" * 3000, "\ud800", math.nan))


@door(
    data=st.data(),
    folder=our.folders,
    numbers=our.mostly(st.sampled_from(((3, 3, 3), (1, 1, 1, 1))), st.just((3, 2, 3))),
    flags=our.few(_MAKE, 1),
    preset=_PRESETS,
    aspects=our.mostly(st.just([]), st.lists(st.builds("{}={}".format, _NAMES, _TEXT), max_size=2)),
)
def test_make(data, folder, numbers, flags, preset, aspects):
    # a name may have bytes that are not text
    odd = data.draw(our.mostly(st.just(""), st.just("\udcff")))
    files = [folder / f"{odd}{number}.jsonl" for number in range(len(numbers))]
    for file, number in zip(files, numbers, strict=True):
        column = "document" if file is files[-1] else "prediction"
        rows = [{column: data.draw(_TEXT), "id": row} for row in range(number)]
        file.write_bytes(data.draw(our.written(rows, "jsonl")))
    sheets, key = folder / "sheets", folder / flags.pop("key", "key.json")
    settings = {"voters": 1, "documents": 1, "preset": preset, **flags, "output": sheets, "key": key}
    argv = ["--systems", *files[:-1], "--sources", files[-1], *(f"--aspect={aspect}" for aspect in aspects)]
    try:
        with unchanged(*files):
            tried(lambda: command("votes", "make", *argv, *(f"--{name}={one}" for name, one in settings.items())))
    finally:
        # no sheets without a key
        assert key.is_file() or not list(folder.rglob("*.html"))
    made = read_key(key)
    wanted = {f"{sides.voter}{ending}" for sides in made.sheets.values() for ending in (".html", ".csv")}
    assert {path.name for path in sheets.iterdir() if path != key} == wanted
    for page in (path.read_text(encoding="utf-8") for path in sheets.glob("*.html")):
        # for any texts, one script, and a section for each item and a last one
        counts = [len(re.findall(f"<{tag}\\b", page)) for tag in ("script", "main", "img")]
        assert (counts, page.count("<section")) == ([1, 1, 0], len(made.items) + 1)
    for table in (path.read_text(encoding="utf-8-sig") for path in sheets.glob("*.csv")):
        rows = list(csv.DictReader(io.StringIO(table, newline=""), strict=True))
        assert not [text for row in rows for text in row.values() if text and text.startswith(_FORMULA)]
        assert sorted(row["item"] for row in rows) == sorted(made.items)
        assert not any(row[aspect] for row in rows for aspect in made.protocol.aspects)


@st.composite
def _votes(draw, key, sheet: str, is_spoiled: bool):
    """The rows of a sheet's votes."""
    aspects = st.fixed_dictionaries(dict.fromkeys(key.protocol.aspects, _CHOICES))
    rows = [{"sheet": sheet, "item": item, **draw(aspects)} for item in key.items][: draw(st.integers(0, 6))]
    if is_spoiled and rows:
        row = draw(st.sampled_from(rows))
        others = {"item": "i000000000000"}, {"sheet": "another"}, {}
        rows += draw(our.mostly(st.just([]), st.sampled_from([[{**row, **other}] for other in others])))
        row |= draw(st.fixed_dictionaries({draw(st.sampled_from((*row, "more", ""))): _BAD_CHOICES | our.storable}))
    return rows


@door(data=st.data(), folder=our.folders, systems=st.sampled_from((2, 3)), preset=_PRESETS, is_spoiled=st.booleans())
def test_collect(data, folder, systems, preset, is_spoiled):
    protocol = dataclasses.replace(PROTOCOLS[preset], documents=5, voters=data.draw(st.sampled_from((1, 2, 3))))
    texts = {f"system {number}": [f"{number} says {row}." for row in range(5)] for number in range(systems)}
    _, key = make_sheets(texts, SENTENCES, protocol, seed=0)
    (key_file := folder / "key.json").write_text(key.to_json(), encoding="utf-8")
    count, files, report = 0, [], folder / "report.json"
    for number, sheet in enumerate(key.sheets):
        votes = data.draw(_votes(key, sheet, is_spoiled))
        count += sum(str(row.get(aspect) or "").strip() != "" for row in votes for aspect in protocol.aspects)
        ending = data.draw(st.sampled_from(("json", "csv"))) if votes else "json"
        content = data.draw(our.written(votes, ending))
        files.append(folder / f"votes-{number}.{ending}")
        files[-1].write_bytes(data.draw(our.mostly(st.just(content), our.spoiled(content))) if is_spoiled else content)
    options = []
    if is_spoiled:
        content = json.loads(key_file.read_bytes())
        key_file.write_text(json.dumps(data.draw(our.mostly(st.just(content), our.spoiled_json(content)))))
        odd = (files * 2, [*files, folder / "none.json"], [folder], [key_file], files[:1])
        files = data.draw(our.mostly(st.just(files), st.sampled_from(odd)))
        options = data.draw(our.mostly(st.just([]), our.few_flags("complete resamples=1|0|-1|x seed=-1|7", 1)))
    argv = ["votes", "collect", *files, "--key", key_file, "--json", report, "--resamples", 50, *options]
    with unchanged(*folder.iterdir()):
        tried(lambda: command(*argv))
    figures = [one for pair in strict_json(report.read_bytes())["pairs"] for one in pair["aspects"].values()]
    assert is_spoiled or count == sum(one[name] for one in figures for name in ("wins", "losses", "ties"))
    for one in figures:
        preference, sides = one["preference"] or {}, one["sides"]
        assert sides["A"] + sides["B"] == one["wins"] + one["losses"]
        assert min(one[name] for name in ("wins", "losses", "ties")) >= 0
        check_scores((preference.get("mean"), *(preference.get("interval") or ())), -100, 100)
        check_scores((preference.get("p_value"), sides["p_value"]), 1e-12, 1)
        check_scores((one[name] for name in ("kappa", "alpha", "ordinal_alpha")), -1, 1)
