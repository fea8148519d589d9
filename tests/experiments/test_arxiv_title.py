"""Our own table, arxiv_title: its systems are trained under equal conditions."""

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
# the settings in which systems may differ; a system with a BERT has the vocabulary of that BERT
DIFFERING = {
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
    shared_settings = []
    for row in TRAINED:
        shared_settings.append({name: value for name, value in settings_of(row).items() if name not in DIFFERING})
    first = shared_settings[0]
    for settings in shared_settings:
        assert settings == first
    assert first["train_tokens_per_batch"] == 4096
    # a further setting of decoding would be one of the bundled model's configuration alone
    decoding = {name: first[name] for name in names(GenerationArguments) if name in first}
    assert decoding == {"num_beams": 5, "max_new_tokens": 40}


@pytest.mark.thorough
@pytest.mark.parametrize("row", FROM_SCRATCH, ids=lambda row: row.row)
def test_networks_are_of_one_size_and_regularized_alike(row):
    config = config_of(row)
    config.vocab_size = 8000
    assert 3 < millions(config) < 6.2
    assert config.dropout == 0.1
    assert getattr(config, "attention_dropout", 0.0) == 0.0
    assert config.label_smoothing == 0.1


def test_updates_take_the_same_time():
    text = (configs_folder() / "tables" / "arxiv_title.yaml").read_text(encoding="utf-8")
    seconds_of_updates = re.findall(r"# (\d\.\d+) s an update", text)
    for row, seconds in zip(TRAINED, seconds_of_updates, strict=True):
        train_seconds = round(float(seconds) * row.full["max_steps"])
        assert train_seconds == pytest.approx(TABLE.train_seconds, rel=0.07)


@pytest.mark.thorough
def test_claims_compare_what_the_names_of_rows_say():
    """A row differs from the one that it is claimed to be above in what its name adds, also at the scale tiny."""
    rows = {row.row: row for row in FROM_SCRATCH}
    added = {}
    for row in FROM_SCRATCH:
        config = config_of(row, "tiny").to_dict()
        for baseline in row.above:
            baseline_config = config_of(rows[baseline], "tiny").to_dict()
            changed = {name for name, value in config.items() if value != baseline_config.get(name)}
            added[row.row, baseline] = changed
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
