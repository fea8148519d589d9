"""What a table's file may contain, and the scales to which rows are shrunk."""

import pytest

from hf_summ.experiments.scales import load_scale
from hf_summ.experiments.tables import SCALES, load_table
from tests.experiments.made_up import make_table

TWO = {"cnn_dailymail": "gdlf/cnn_dailymail.yaml", "xsum": "gdlf/xsum.yaml"}

VOTES = {"kind": "votes", "measures": ["win", "lose"], "unit": "percent", "systems": ["GDLF"]}


def rows(**entries):
    """The entry `rows` of a table whose only row has these entries."""
    return {"rows": [{"row": "DC", **entries}]}


def test_table_is_read_with_its_defaults(tmp_path):
    table = make_table(tmp_path)
    assert (table.name, table.kind, table.unit) == ("made_up", "scores", "words")
    assert table.measures == ("rouge1", "rougeL")
    (row,) = table.rows
    assert row.is_trained
    assert row.published == {"xsum": (30, 20)}
    assert table.config_of(row, "xsum") == "gdlf/xsum.yaml"
    assert table.language_of("xsum") == "en"
    assert row.sentences_of("xsum") == 3


def test_language_and_sentences_may_be_each_data_sets_own(tmp_path):
    entry = {"row": "LEAD", "extractive": "lead", "sentences": {"cnn_dailymail": 3, "xsum": "reference"}}
    table = make_table(tmp_path, datasets=TWO, language={"xsum": "de"}, rows=[entry])
    assert [table.language_of(name) for name in TWO] == ["en", "de"]
    assert [table.rows[0].sentences_of(name) for name in TWO] == [3, "reference"]


CASES_OF_WRONG_ENTRIES = [
    ({"paper": None}, "missing 1 required positional argument: 'paper'"),
    ({"rows": None}, "'rows'"),
    ({"rows": "DC"}, "`rows` must be a list, but is str: 'DC'"),
    ({"measures": "DC"}, "`measures` must be a list, but is str: 'DC'"),
    ({"notes": "DC"}, "`notes` must be a list, but is str: 'DC'"),
    ({"kind": "score"}, "`kind` is 'score', but must be one of scores, statistics, language_models, votes"),
    ({"measures": ["rouge1", "rouge4"]}, "measure is 'rouge4', but must be one of rouge1, rouge2, "),
    ({"unit": "letters"}, "`unit` is 'letters', but must be one of words, characters, wordpieces"),
    ({**VOTES, "unit": "words"}, "`unit` is 'words', but must be one of documents, percent"),
    ({"baseline": "DCC"}, r"`baseline` is 'DCC', but must be one of DC, None$"),
    ({"rouge": {"stem": True}}, "rouge: option is 'stem', but must be one of score, byte_limit, word_limit"),
    ({"rows": [{"config": "gdlf/xsum.yaml"}]}, "missing 1 required positional argument: 'row'"),
    ({"rows": [{"row": "DC"}, {"row": "DC"}]}, "row 'DC' occurs twice: rows need unique names"),
    (rows(flag={}), "row 'DC': .* got an unexpected keyword argument 'flag'"),
    (rows(published=[1]), r"row 'DC': published: xsum needs a number or null for each measure, but has \[1\]"),
    (rows(published={"xsun": [1, 2]}), r"published: data set is 'xsun', but must be .*xsum"),
    ({**rows(published=[1, 2]), "datasets": TWO}, "name the data set, which is one of cnn_dailymail, xsum"),
    ({**rows(extractive="lead", sentences={"xsum": 1}), "datasets": TWO}, "sentences: give one value, or one for"),
    (rows(gold=True, literature="Somebody"), "row 'DC': `gold` and `literature` exclude each other"),
    (rows(gold=True, decoding={"num_beams": 2}), "`decoding` needs training, but a row with `gold` has none"),
    (rows(language_model="gpt2", text="1"), "`language_model` needs `text` and `percentile`"),
    (rows(flags={"num_beam": 2}), r"row 'DC': unknown key 'num_beam'; did you mean num_beams\?"),
    (rows(flags={"max_steps": "many"}), "row 'DC': .*invalid int value: 'many'"),
    ({"against": "length"}, "`against` is 'length', but must be one of divergence"),
    ({"against": "divergence", "measures": ["rouge1", "novel2"]}, "`against` needs measures of single summaries"),
    ({"against": "divergence", "seeds": [1, 2]}, "`against` and `seeds` exclude each other"),
    (rows(full={"max_step": 2}), r"row 'DC': unknown key 'max_step'; did you mean max_steps\?"),
    (rows(decoding={"max_steps": 2}), "row 'DC': decoding: max_steps is not a decoding flag"),
]


@pytest.mark.thorough
@pytest.mark.parametrize(("changes", "message"), CASES_OF_WRONG_ENTRIES)
def test_wrong_entries_are_named_with_file_and_row(tmp_path, changes, message):
    with pytest.raises(ValueError, match=message) as error:
        make_table(tmp_path, **changes)
    assert str(error.value).startswith(f"{tmp_path / 'made_up.yaml'}: ")


def test_row_that_cannot_be_run_may_say_what_it_was_trained_by(tmp_path):
    table = make_table(tmp_path, **rows(unavailable="no data", config_overrides={"gating": "glu"}))
    assert not table.rows[0].is_trained


CASES_OF_BROKEN_FILES = [
    (b"rows: [", "while parsing a flow node"),
    ("title: Größe".encode("latin-1"), "can't decode byte"),
    (b"- title", "list indices must be integers"),
    (b"", "'NoneType'"),
]


@pytest.mark.parametrize(("content", "message"), CASES_OF_BROKEN_FILES)
def test_file_that_is_no_table_is_named(tmp_path, content, message):
    path = tmp_path / "broken.yaml"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message) as error:
        load_table(str(path))
    assert str(path) in str(error.value)


def test_table_that_is_not_there_is_told_with_the_nearest(tmp_path):
    with pytest.raises(ValueError, match=r"unknown table gdlf_44; did you mean gdlf_4\?; the tables are .*gdlf_1, gd"):
        load_table("gdlf_44")
    with pytest.raises(ValueError, match=r"unknown table nowhere/rows\.yaml"):
        load_table("nowhere/rows.yaml")
    # a folder in the place of a table is named
    (tmp_path / "rows.yaml").mkdir()
    with pytest.raises(ValueError, match="Is a directory"):
        load_table(str(tmp_path / "rows.yaml"))


@pytest.mark.parametrize("architecture", ["gdlf", "copy_transformer", "bart"])
def test_scales_of_the_package_are_read(architecture):
    tiny, small, full = [load_scale(architecture, name) for name in SCALES]
    assert tiny.toy_news.keys() == {"train", "validation", "test"}
    assert tiny.flags["max_steps"] < small.flags["max_steps"]
    assert (full.config_overrides, full.flags, full.toy_news) == ({}, {}, None)
    # evaluation costs time and decides nothing in so few updates
    assert tiny.flags["eval_strategy"] == small.flags["eval_strategy"] == "no"


def test_architecture_without_scales_is_told():
    with pytest.raises(ValueError, match=r"t5\.yaml does not exist: t5 has no scales, so its rows cannot be run"):
        load_scale("t5", "tiny")
