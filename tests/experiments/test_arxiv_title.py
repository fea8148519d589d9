"""The table of ours: equal conditions for all of its systems."""

import re

import pytest
from transformers import AutoConfig

from docs.extensions.configuration_rows import millions
from hf_summ.checkpoints.overrides import apply_overrides
from hf_summ.common.flags import names
from hf_summ.experiments.settings import base_settings
from hf_summ.experiments.tables import configs_folder, load_table
from hf_summ.training.arguments import GenerationArguments
from hf_summ.training.parsing import make_arguments

TABLE = load_table("arxiv_title")
TRAINED = [row for row in TABLE.rows if row.is_trained]
# a BERT has a vocabulary of its own
OWN = {
    "model_type",
    "config_overrides",
    "learning_rate",
    "learning_rates",
    "max_steps",
    "tokenizer_name",
    "restore_case",
}
FROM_SCRATCH = [row for row in TRAINED if "MiniLM" not in row.row]


def settings_of(row, scale="full"):
    settings, _ = base_settings(TABLE, row, "arxiv_titles", scale, {})
    return settings


def config_of(row, scale="full"):
    settings = settings_of(row, scale)
    make_arguments(settings)
    return apply_overrides(AutoConfig.for_model(settings["model_type"]), settings["config_overrides"])


def test_systems_differ_in_network_rate_and_updates_alone():
    first, *others = ({name: value for name, value in settings_of(row).items() if name not in OWN} for row in TRAINED)
    assert others == [first] * (len(TRAINED) - 1)
    assert first["train_tokens_per_batch"] == 4096
    # what the shipped model's configuration decodes with beside these would be its own
    assert {name: first[name] for name in names(GenerationArguments) if name in first} == {
        "num_beams": 5,
        "max_new_tokens": 40,
    }


@pytest.mark.thorough
@pytest.mark.parametrize("row", FROM_SCRATCH, ids=lambda row: row.row)
def test_networks_are_of_one_size_and_regularized_alike(row):
    config = config_of(row)
    config.vocab_size = 8000
    assert 3 < millions(config) < 6.2
    dropouts = config.dropout, getattr(config, "attention_dropout", 0.0)
    assert (dropouts, config.label_smoothing) == ((0.1, 0.0), 0.1)


def test_updates_take_the_same_time():
    text = (configs_folder() / "tables" / "arxiv_title.yaml").read_text(encoding="utf-8")
    seconds = [float(found) for found in re.findall(r"# (\d\.\d+) s an update", text)]
    updates = [row.full["max_steps"] for row in TRAINED]
    assert [round(a * b) for a, b in zip(seconds, updates, strict=True)] == pytest.approx(
        [TABLE.train_seconds] * len(TRAINED), rel=0.07
    )


@pytest.mark.thorough
def test_claims_compare_what_is_called_so():
    """What a row adds to the one that it is to be above, also where the scale is tiny."""
    rows = {row.row: row for row in FROM_SCRATCH}
    added = {}
    for row in FROM_SCRATCH:
        for other in row.above:
            one, two = (config_of(name, "tiny").to_dict() for name in (row, rows[other]))
            added[row.row, other] = {name for name in one if one[name] != two.get(name)}
    for shift in ("", " + token shift"):
        network = added.pop((f"Highlight-Transformer{shift}", f"CopyTransformer{shift}"))
        assert {"model_type", "highlighting"} <= network
    assert added == {
        ("DRGD", "StanD"): {"latent_size"},
        ("StanD + copying", "StanD"): {"copy"},
        ("DRGD + copying", "StanD + copying"): {"latent_size"},
        ("DRGD + copying", "DRGD"): {"copy"},
        ("GDLF", "DynamicConv"): {"gating", "layer_fusion"},
        ("DynamicConv + copying", "DynamicConv"): {"copy"},
        ("GDLF + copying", "GDLF"): {"copy"},
        ("GDLF + copying", "DynamicConv + copying"): {"gating", "layer_fusion"},
        ("CopyTransformer + token shift", "CopyTransformer"): {"token_shift"},
        ("Highlight-Transformer + token shift", "Highlight-Transformer"): {"token_shift"},
        ("SAGCopy", "MASS+Copy"): {"centrality"},
        ("MASS+Copy + token shift", "MASS+Copy"): {"token_shift"},
        ("SAGCopy + token shift", "SAGCopy"): {"token_shift"},
        ("SAGCopy + token shift", "MASS+Copy + token shift"): {"centrality"},
    }
