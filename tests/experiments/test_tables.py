"""What a table's file may contain, and the scales to which rows are shrunk."""

import pytest
import yaml

from hf_summ.experiments import tables
from hf_summ.experiments.tables import SCALES, load_scale, load_table, table_names
from tests.experiments.made_up import table, write_table

TWO = {"cnn_dailymail": "gdlf/cnn_dailymail.yaml", "xsum": "gdlf/xsum.yaml"}

VOTES = {"kind": "votes", "measures": ["win", "lose"], "unit": "percent", "systems": ["GDLF"]}


def rows(**entries):
    return {"rows": [{"row": "DC", **entries}]}


def test_table_is_read_with_its_defaults(tmp_path):
    read = table(tmp_path)
    assert (read.name, read.kind, read.unit, read.measures) == ("made_up", "scores", "words", ("rouge1", "rougeL"))
    (row,) = read.rows
    assert row.is_trained
    assert row.published == {"xsum": (30, 20)}
    assert read.config_of(row, "xsum") == "gdlf/xsum.yaml"
    assert (read.language_of("xsum"), row.sentences_of("xsum")) == ("en", 3)


def test_language_and_sentences_may_be_each_data_sets_own(tmp_path):
    entry = {"row": "LEAD", "extractive": "lead", "sentences": {"cnn_dailymail": 3, "xsum": "reference"}}
    read = table(tmp_path, datasets=TWO, language={"xsum": "de"}, rows=[entry])
    assert [read.language_of(name) for name in TWO] == ["en", "de"]
    assert [read.rows[0].sentences_of(name) for name in TWO] == [3, "reference"]


def test_tables_of_the_package_are_found_by_name():
    assert "gdlf_4" in table_names()
    assert load_table("gdlf_4").baseline == "DC"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"titel": "Rows"}, r"unknown key 'titel' of a table; did you mean title\?"),
        ({"paper": None}, "a table needs `paper`"),
        ({"rows": None}, "a table needs `rows`"),
        ({"rows": "DC"}, "`rows` is 'DC', but must be a list"),
        ({"measures": "rouge1"}, "`measures` is 'rouge1', but must be a list"),
        ({"notes": "A note."}, "`notes` is 'A note.', but must be a list"),
        ({"datasets": ["xsum"]}, r"`datasets` is \['xsum'\], but must be a mapping of data sets"),
        ({"kind": "score"}, "`kind` is 'score', but must be one of scores, statistics, language_models, votes"),
        (
            {"measures": ["rouge1", "rouge4"]},
            "measure is 'rouge4', but must be one of rouge1, rouge2, .*; did you mean rouge",
        ),
        ({"measures": ["rouge1", "pairs"]}, "measure is 'pairs', but must be one of"),
        ({"unit": "letters"}, "`unit` is 'letters', but must be one of words, wordpieces"),
        ({"systems": "GDLF"}, "`systems` is 'GDLF', but must be a list"),
        ({"systems": ["GDLF", "DC"]}, r"`systems` is \['GDLF', 'DC'\], but only votes have them, between two"),
        (VOTES, r"`systems` is \['GDLF'\], but only votes have them, between two"),
        ({**VOTES, "unit": "words"}, "`unit` is 'words', but must be one of documents, percent"),
        ({"baseline": "DCC"}, r"`baseline` is 'DCC', but must be a row; did you mean DC\?"),
        ({"rouge": {"stem": True}}, "rouge: option is 'stem', but must be one of score, byte_limit, word_limit"),
        ({"rouge": {"score": "f1"}}, "rouge: score is 'f1', but must be one of fmeasure, precision, recall"),
        ({"rows": ["DC"]}, "rows: 'DC' is not a row: it needs `row` with its name"),
        ({"rows": [{"config": "gdlf/xsum.yaml"}]}, "is not a row: it needs `row` with its name"),
        ({"rows": [{"row": "DC"}, {"row": "DC"}]}, "row 'DC' occurs twice: rows need unique names"),
        (rows(flag={}), r"row 'DC': unknown key 'flag' of a row; did you mean flags\?"),
        (rows(published=[1]), "row 'DC': published: 1 figures of xsum but 2 measures"),
        (rows(published=40.3), "row 'DC': published: 40.3 must be a list of figures, or one for each data set"),
        (rows(published=["40.3%", 1]), "published: xsum has '40.3%', but figures must be numbers, or null for none"),
        (rows(published={"xsun": [1, 2]}), r"published: xsun is not a data set of the table; did you mean xsum\?"),
        ({**rows(published=[1, 2]), "datasets": TWO}, "name the data set, which is one of cnn_dailymail, xsum"),
        (
            {**rows(extractive="lead", sentences={"xsum": 1}), "datasets": TWO},
            'sentences: give one number or "reference", or one for each of cnn_dailymail, xsum',
        ),
        (rows(extractive="lead", sentences="references"), 'sentences: give one number or "reference", or'),
        (rows(extractive="lead", sentences={"xsum": 1.5}), 'sentences: give one number or "reference", or'),
        (rows(gold=True, literature="Somebody"), "row 'DC': `gold` and `literature` exclude each other"),
        (rows(gold=True, decoding={"num_beams": 2}), "`decoding` needs training, but a row with `gold` has none"),
        (rows(extractive="first"), "`extractive` is 'first', but must be one of lead, tail, oracle"),
        (rows(language_model="gpt2", text="1"), "`language_model` needs `text` and `percentile`"),
        (rows(flags={"num_beam": 2}), r"row 'DC': flags: unknown key 'num_beam'; did you mean num_beams\?"),
        (rows(flags={"max_steps": "many"}), "row 'DC': flags: .*invalid int value: 'many'"),
        ({"against": "length"}, "`against` is 'length', but must be one of divergence"),
        ({"against": "divergence", "measures": ["rouge1", "novel2"]}, "`against` needs measures of single summaries"),
        ({"against": "divergence", "seeds": [1, 2]}, "`against` and `seeds` exclude each other"),
        ({"seeds": 2}, "`seeds` is 2, but must be a list"),
        (rows(above=["DCC"]), "row 'DC': above: 'DCC' is not another row; did you mean DC"),
        (rows(above=["DC"]), "row 'DC': above: 'DC' is not another row"),
        (rows(full={"max_step": 2}), r"row 'DC': full: unknown key 'max_step'; did you mean max_steps\?"),
        (rows(gold=True, full={"max_steps": 2}), "`full` needs training, but a row with `gold` has none"),
        (rows(decoding={"max_steps": 2}), "row 'DC': decoding: max_steps is not a decoding flag"),
    ],
)
def test_wrong_entries_are_named_with_file_and_row(tmp_path, changes, message):
    with pytest.raises(ValueError, match=message) as error:
        table(tmp_path, **changes)
    assert str(error.value).startswith(f"{tmp_path / 'made_up.yaml'}: ")


def test_row_that_cannot_be_run_may_say_what_it_was_trained_by(tmp_path):
    read = table(tmp_path, **rows(unavailable="no data", config_overrides={"gating": "glu"}))
    assert not read.rows[0].is_trained


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"rows: [", "cannot be read as YAML"),
        ("title: Größe".encode("latin-1"), "cannot be read as YAML"),
        (b"- title", "must contain `key: value` lines"),
        (b"", "must contain `key: value` lines"),
    ],
)
def test_file_that_is_no_table_is_named(tmp_path, content, message):
    path = tmp_path / "broken.yaml"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message) as error:
        load_table(str(path))
    assert str(path) in str(error.value)


def test_table_that_is_not_there_is_told_with_the_nearest():
    with pytest.raises(ValueError, match=r"unknown table gdlf_44; did you mean gdlf_4\?; the tables are .*gdlf_1, gd"):
        load_table("gdlf_44")
    with pytest.raises(ValueError, match=r"unknown table nowhere/rows\.yaml"):
        load_table("nowhere/rows.yaml")


def test_folder_in_a_tables_place_is_named(tmp_path):
    (tmp_path / "rows.yaml").mkdir()
    with pytest.raises(ValueError, match=r"cannot be read as YAML: .*directory"):
        load_table(str(tmp_path / "rows.yaml"))


def test_name_of_a_table_is_its_files(tmp_path):
    assert load_table(write_table(tmp_path, name="mine")).name == "mine"


@pytest.mark.parametrize("architecture", ["gdlf", "copy_transformer", "bart"])
def test_scales_of_the_package_are_read(architecture):
    tiny, small, full = (load_scale(architecture, name) for name in SCALES)
    assert tiny.toy_news.keys() == {"train", "validation", "test"}
    assert tiny.flags["max_steps"] < small.flags["max_steps"]
    assert (full.config_overrides, full.flags, full.toy_news) == ({}, {}, None)
    # evaluation costs time and decides nothing in so few updates
    assert tiny.flags["eval_strategy"] == small.flags["eval_strategy"] == "no"


def test_unknown_scale_is_told():
    with pytest.raises(ValueError, match="`scale` is 'large', but must be one of tiny, small, full"):
        load_scale("gdlf", "large")


def test_architecture_without_scales_is_told():
    with pytest.raises(ValueError, match=r"t5\.yaml does not exist: t5 has no scales, so its rows cannot be run"):
        load_scale("t5", "tiny")


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"flag": {}}, r"gdlf\.yaml: tiny: unknown key 'flag'; did you mean flags\?"),
        ({"flags": {"num_beam": 1}}, r"tiny: flags: unknown key 'num_beam'; did you mean num_beams\?"),
    ],
)
def test_wrong_entries_are_named(tmp_path, monkeypatch, entry, message):
    (tmp_path / "scales").mkdir()
    (tmp_path / "scales" / "gdlf.yaml").write_text(yaml.safe_dump({"tiny": entry}), encoding="utf-8")
    monkeypatch.setattr(tables, "configs_folder", lambda: tmp_path)
    with pytest.raises(ValueError, match=message):
        load_scale("gdlf", "tiny")
