"""The scales to which rows are shrunk."""

import pytest
import yaml

from hf_summ.experiments import tables
from hf_summ.experiments.tables import SCALES, load_scale


@pytest.mark.parametrize("architecture", ["gdlf", "copy_transformer"])
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
    with pytest.raises(ValueError, match=r"bart\.yaml does not exist: bart has no scales, so its rows cannot be run"):
        load_scale("bart", "tiny")


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
