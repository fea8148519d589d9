"""Config values from the command line."""

import pytest
from transformers import BertConfig, EncoderDecoderConfig, T5Config

from hf_summ import DrgdConfig, GdlfConfig
from hf_summ.checkpoints.overrides import apply_overrides, override_item, parse_overrides


def nested() -> EncoderDecoderConfig:
    """A configuration that contains two others."""
    return EncoderDecoderConfig.from_encoder_decoder_configs(BertConfig(), BertConfig())


def test_values_are_json_and_bare_words_are_strings():
    items = ["d_model=512", "dropout=1e-1", "gating=none", 'tags="pos"', "encoder_kernel_sizes=[3,5]", "a.b=null"]
    assert parse_overrides([*items, "d_model=64", "x=true"]) == {
        "d_model": 64,
        "dropout": 0.1,
        "gating": "none",
        "tags": "pos",
        "encoder_kernel_sizes": [3, 5],
        "a.b": None,
        "x": True,
    }


VALUES_OF_ITEMS = ["none", "1", "true", "", "[x", '"', [3, 5], 0.1, None, True, {"a": [1]}]


@pytest.mark.parametrize("value", VALUES_OF_ITEMS)
def test_items_are_read_back_as_their_values(value):
    assert parse_overrides([override_item("key", value)]) == {"key": value}


CASES_OF_WRONG_ITEMS = [
    ("d_model", "write key=JSON"),
    ("=3", "write key=JSON"),
    ("encoder_kernel_sizes=[3,5", r"'\[3,5' is not JSON"),
]


@pytest.mark.parametrize(("item", "message"), CASES_OF_WRONG_ITEMS)
def test_malformed_items_are_refused(item, message):
    with pytest.raises(ValueError, match=message):
        parse_overrides([item])


def test_all_overrides_are_checked_together():
    overrides = {"encoder_layers": 2, "encoder_kernel_sizes": [3, 5], "hidden_size": 64, "gating": "glu"}
    config = apply_overrides(GdlfConfig(), overrides)
    assert (config.encoder_layers, config.encoder_kernel_sizes, config.d_model, config.gating) == (2, [3, 5], 64, "glu")
    assert config.decoder_layers == GdlfConfig().decoder_layers
    # former names of keys are read
    assert apply_overrides(DrgdConfig(), {"variant": "printed"}).equations == "printed"
    # dotted keys reach nested configs
    config = apply_overrides(nested(), {"encoder.hidden_size": 24, "encoder.num_attention_heads": 2})
    assert (config.encoder.hidden_size, config.decoder.hidden_size) == (24, BertConfig().hidden_size)


def test_the_config_itself_stays_as_it_was():
    config = GdlfConfig()
    changed = apply_overrides(config, {"encoder_kernel_sizes.0": 5})
    assert changed.encoder_kernel_sizes[0] == 5
    assert config == GdlfConfig()
    assert apply_overrides(config, {}) is config


CASES_OF_WRONG_OVERRIDES = [
    (GdlfConfig, {"encoder_layer": 2}, "unknown key 'encoder_layer' in gdlf; did you mean encoder_layers?"),
    (GdlfConfig, {"zzz": 2}, "unknown key 'zzz' in gdlf; the keys are .*d_model, "),
    (T5Config, {"num_layer": 2}, "unknown key 'num_layer' in t5; did you mean num_layers?"),
    (nested, {"encoder.hiden_size": 2}, "unknown key 'hiden_size' in encoder; did you mean hidden_size?"),
    (GdlfConfig, {"encoder_kernel_sizes.9": 3}, "unknown key '9' in encoder_kernel_sizes; the keys are 0, 1, .*,"),
    (GdlfConfig, {"d_model.x": 3}, "unknown key 'x' in d_model; the keys are none"),
    (GdlfConfig, {"d_model": "wide"}, "d_model=\"wide\".*'d_model' expected int, got str"),
    (GdlfConfig, {"encoder_layers": 2}, "encoder_layers=2: .*`encoder_kernel_sizes` has 7"),
    (GdlfConfig, {"encoder_kernel_sizes.0": 4}, "contains 4, but must be odd and positive"),
]


@pytest.mark.parametrize(("config", "overrides", "message"), CASES_OF_WRONG_OVERRIDES)
def test_wrong_overrides_are_named(config, overrides, message):
    with pytest.raises(ValueError, match=message):
        apply_overrides(config(), overrides)
