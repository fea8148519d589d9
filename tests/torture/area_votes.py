"""`hf-summ votes`: sheets of hostile texts, and votes spoiled by voters or programs."""

import csv
import dataclasses
import io
import json
import math
import random
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from hf_summ.votes import PROTOCOLS, Key, make_sheets, read_key
from tests.torture import values
from tests.torture.area_files import written
from tests.torture.cases import Case
from tests.torture.checks import first_problem, no_constant, rows_problem, scores_problem, untouched
from tests.torture.commands import command
from tests.torture.workshop import Workshop

# markup that a page must escape
_MARKUP = (
    *("<script>alert(1)</script>", "</script><script>", '" onload="alert(1)', "<!--", "{{ 7 * 7 }}", "{% raw %}"),
    *(
        "<img src=x onerror=alert(1)>",
        "=1+1",
        "＝1＋1",
        "@SUM(A1)",
        "-1",
        "]]>",
        "</div></main>",
        "&lt;script&gt;",
        "\u2028'",
    ),
)
_PRESETS = ("gdlf", "highlight_transformer", "sagcopy")
_CHOICES = ("A", "B", "tie", "a", " b ", "TIE", "")
_BAD_CHOICES = ("C", "A\nB", 1, None, True, ["A"], {"a": 1}, "x" * 3000, "\ud800", math.nan)


def make(draw: random.Random, shop: Workshop, folder: Path) -> Case:
    """Sheets to make, or votes to collect."""
    return draw.choice((_make, _collect, _collect))(draw, folder)


def _inputs(draw: random.Random, folder: Path) -> list[Any]:
    """Flags for files of texts, and for the numbers of documents and voters."""
    rows, systems = draw.choice((1, 3, 6)), draw.choice((2, 2, 2, 3))
    flags: list[Any] = ["--systems"]
    for name in (*(f"system-{number}" for number in range(systems)), "sources", "references"):
        if name == "references" and draw.random() < 0.5:
            continue
        texts = [_text(draw) for _ in range(rows + (draw.random() < 0.03))]
        if draw.random() < 0.5:
            column = {"sources": "document", "references": "reference"}.get(name, "prediction")
            ending, found = ".jsonl", [{column: text, "id": row} for row, text in enumerate(texts)]
        else:
            ending, found = ".txt", [{"text": re.sub(r"[\r\n]", " ", text)} for text in texts]
        content = written(found, ending[1:], draw)
        if draw.random() < 0.05:
            content = values.spoiled(draw, content)
        # a name may have bytes that are not text
        file = folder / f"{name}{draw.choice(('', '', '', chr(0xDCFF)))}{ending}"
        file.write_bytes(content)
        flags += [f"--{name}", file] if name in ("sources", "references") else [file]
    numbers = draw.choice((1, 2, 3)), draw.choice((1, rows))
    if draw.random() < 0.1:
        numbers = draw.choice(((0, 1), (1, 0), (-1, 1), (2, rows + 1), ("x", 1), (1, 10**30)))
    return [*flags, "--voters", numbers[0], "--documents", numbers[1], *_questions(draw)]


def _text(draw: random.Random) -> str:
    if draw.random() < 0.3:
        return draw.choice(("", " ", "One sentence. ")) + draw.choice(_MARKUP)
    return values.some_text(draw)


def _questions(draw: random.Random) -> list[str]:
    flags = ["--preset", draw.choice(_PRESETS)]
    kind = draw.random()
    if kind < 0.2:
        flags += [
            "--aspect",
            "fluency=Which?",
            "--aspect",
            f"{draw.choice(('a b', 'é', '=1', '<b>'))}=Which is better?",
        ]
    elif kind < 0.4:
        flags += ["--aspect", f"{_text(draw)}={_text(draw)}"]
    elif kind < 0.5:
        flags += ["--aspect", draw.choice(("", "=", "a", "a=", "=b", "sheet=Which?", "summary A=?", "A=?", "\0=?"))]
    if draw.random() < 0.1:
        flags += ["--separator", draw.choice(("none", "|||", "", " ", "<b>"))]
    return flags


def _sheets(draw: random.Random) -> Key:
    """The key of sheets of a few documents."""
    rows, names = draw.choice((1, 3, 6)), ["one", "two", "three"][: draw.choice((2, 2, 3))]
    protocol = dataclasses.replace(PROTOCOLS[draw.choice(_PRESETS)], documents=rows, voters=draw.choice((1, 2, 3)))
    systems = {name: [f"{name} says {row}." for row in range(rows)] for name in names}
    return make_sheets(systems, values.plain(draw).split()[:rows], protocol, seed=draw.randrange(100))[1]


def _make(draw: random.Random, folder: Path) -> Case:
    flags = _inputs(draw, folder)
    sheets, key = folder / "sheets", folder / "key.json"
    if draw.random() < 0.1:
        key = draw.choice(
            (sheets / "key.json", folder / "key.txt", folder / "no" / "key.json", folder / "x" / "k.json")
        )
        sheets = draw.choice((sheets, folder, folder / "no" / "sheets", folder / "sources.txt"))
    before = {path.name for path in folder.iterdir()}
    unchanged = untouched(*folder.iterdir())

    def problem(_: None) -> str | None:
        found = read_key(key)
        wanted = {f"{sides.voter}.{kind}" for sides in found.sheets.values() for kind in ("html", "csv")}
        if {path.name for path in sheets.iterdir()} != wanted:
            return f"{sorted(path.name for path in sheets.iterdir())} for {sorted(wanted)}"
        return first_problem(
            *(_page_problem(file.read_text("utf-8"), len(found.items)) for file in sheets.glob("*.html")),
            *(_table_problem(file.read_bytes().decode("utf-8-sig"), found) for file in sheets.glob("*.csv")),
        )

    def left() -> str | None:
        odd = {path.name for path in folder.rglob("*") if path.name.endswith(".part")}
        is_half = sheets.is_dir() and sheets != folder and not key.exists() and any(sheets.iterdir())
        return unchanged() or (f"left over: {odd}" if odd else "sheets without a key" if is_half else None)

    told = [str(flag) for flag in flags]
    texts = [(folder / name).read_bytes()[:80] for name in sorted(before)]
    return Case(
        f"make {told} {texts}",
        lambda: command("votes", "make", *flags, "--output", sheets, "--key", key),
        problem,
        left,
    )


class _Tags(HTMLParser):
    """Collects the elements that a browser would find, and their attributes."""

    def __init__(self):
        super().__init__()
        self.names: list[str] = []
        self.attributes: set[str] = set()

    def handle_starttag(self, tag, attrs):
        self.names.append(tag)
        self.attributes |= {name for name, _ in attrs}


def _page_problem(page: str, items: int) -> str | None:
    """A problem unless the page has one script, and one section per item and a last one, for any texts."""
    found = _Tags()
    found.feed(page)
    handlers = [name for name in found.attributes if name.startswith("on")]
    counts = {name: found.names.count(name) for name in ("script", "main", "section", "img")}
    if handlers or counts != {"script": 1, "main": 1, "section": items + 1, "img": 0}:
        return f"the page has {counts} and {handlers}"
    page.encode("utf-8")
    return None


def _table_problem(table: str, key: Key) -> str | None:
    rows = list(csv.DictReader(io.StringIO(table, newline=""), strict=True))
    formulas = [text for row in rows for text in row.values() if text and text.startswith(tuple("=+-@\t\r＝＋－＠"))]
    if formulas:
        return f"a spreadsheet computes {formulas[0]!r:.80}"
    if {row["item"] for row in rows} != set(key.items) or any(row[aspect] for row in rows for aspect in _aspects(key)):
        return f"the table is {table!r:.200}"
    return rows_problem(rows, len(key.items), "items")


def _aspects(key: Key) -> list[str]:
    return list(key.protocol.aspects)


def _collect(draw: random.Random, folder: Path) -> Case:
    key_file = folder / "key.json"
    key = _sheets(draw)
    key.write(key_file)
    is_spoiled = draw.random() < 0.4
    files = []
    counted = 0
    for number, sheet in enumerate(key.sheets):
        rows = [_row(draw, key, sheet, item) for item in key.items if draw.random() < 0.9]
        draw.shuffle(rows)
        if is_spoiled and rows and draw.random() < 0.5:
            _spoil_rows(draw, rows)
        counted += sum(str(row.get(aspect) or "").strip() != "" for row in rows for aspect in _aspects(key))
        ending = draw.choice(("json", "json", "csv"))
        content = written(rows, ending, draw) if rows or ending == "json" else b"sheet,item\n"
        if is_spoiled and draw.random() < 0.3:
            content = values.spoiled(draw, content)
        file = folder / f"votes-{number}.{ending}"
        file.write_bytes(content)
        files.append(file)
    if is_spoiled and draw.random() < 0.3:
        _spoil_key(draw, key_file)
    if is_spoiled and draw.random() < 0.1:
        files = draw.choice((files * 2, [*files, folder / "none.json"], [folder], [key_file], files[:1]))
    report = folder / "report.json"
    more: list[list] = [["--complete"], ["--resamples", draw.choice((1, 0, -1, "x"))], ["--seed", draw.choice((-1, 7))]]
    options = [token for part in more if draw.random() < (0.15 if is_spoiled else 0.03) for token in part]
    if "--resamples" not in options:
        options += ["--resamples", 50]

    def problem(_: None) -> str | None:
        found = json.loads(report.read_text("utf-8"), parse_constant=no_constant)
        figures = [one for pair in found["pairs"] for one in pair["aspects"].values()]
        votes = sum(one[name] for one in figures for name in ("wins", "losses", "ties"))
        return first_problem(
            None if is_spoiled or votes == counted else f"{counted} votes, but {votes} are counted",
            *map(_figures_problem, figures),
        )

    told = [file.read_bytes()[:100] if file.is_file() else file for file in files]
    return Case(
        f"collect {told} {options} {key_file.read_bytes()[:100] if is_spoiled else ''}",
        lambda: command("votes", "collect", *files, "--key", key_file, "--json", report, *options),
        problem,
        untouched(*(path for path in folder.iterdir() if path != report)),
    )


def _row(draw: random.Random, key: Key, sheet: str, item: str) -> dict[str, Any]:
    return {"sheet": sheet, "item": item, **{aspect: draw.choice(_CHOICES) for aspect in _aspects(key)}}


def _spoil_rows(draw: random.Random, rows: list[dict[str, Any]]) -> None:
    row = draw.choice(rows)
    match draw.randrange(6):
        case 0:
            row[draw.choice(sorted(row))] = draw.choice(_BAD_CHOICES)
        case 1:
            rows.append(draw.choice((row, {**row, "item": "i000000000000"}, {**row, "sheet": "another"}, {})))
        case 2:
            for other in rows:
                del other[sorted(row)[0]]
        case 3:
            del row[draw.choice(sorted(row))]
        case 4:
            row[draw.choice(("more", "", "summary A"))] = values.storable_junk(draw)
        case _:
            row[draw.choice(("sheet", "item"))] = values.storable_junk(draw)


def _spoil_key(draw: random.Random, file: Path) -> None:
    if draw.random() < 0.3:
        file.write_bytes(values.spoiled(draw, file.read_bytes()))
        return
    content, _ = values.spoiled_json(draw, json.loads(file.read_text("utf-8")))
    file.write_text(json.dumps(content), encoding="utf-8")


def _figures_problem(figures: dict[str, Any]) -> str | None:
    """What is wrong with the figures of an aspect; those that cannot be computed are null."""
    preference, sides = figures["preference"] or {}, figures["sides"]
    means = [value for value in (preference.get("mean"), *(preference.get("interval") or ())) if value is not None]
    shares = [value for value in (preference.get("p_value"), sides["p_value"]) if value is not None]
    agreement = [figures[name] for name in ("kappa", "alpha", "ordinal_alpha") if figures[name] is not None]
    if sides["A"] + sides["B"] != figures["wins"] + figures["losses"]:
        return f"{sides} for {figures['wins']} wins and {figures['losses']} losses"
    least = min((figures[name] for name in ("wins", "losses", "ties")), default=0)
    return first_problem(
        f"a count of {least}" if least < 0 else None,
        scores_problem(means, -100, 100),
        scores_problem(shares, 1e-12, 1),
        scores_problem(agreement, -1, 1),
    )
