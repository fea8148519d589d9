"""The Transformer's layers: their outputs and their settings."""

import pytest
import torch
from torch import nn

from hf_summ import CopyTransformerConfig
from hf_summ.models.layers_transformer import (
    FeedForward,
    SelfAttention,
    SinusoidalPositions,
    TransformerDecoderLayer,
    TransformerEncoderLayer,
)


@pytest.fixture(params=["pre", "post"])
def config(request) -> CopyTransformerConfig:
    config = CopyTransformerConfig(
        d_model=12, num_heads=3, ffn_dim=20, dropout=0.0, attention_dropout=0.0, norm=request.param
    )
    config._attn_implementation = "eager"
    return config


def sub_layer(config, norm, states, compute):
    """What comes of a sub-layer, its input or the sum normalized."""
    return states + compute(norm(states)) if config.norm == "pre" else norm(states + compute(states))


def test_encoder_layer_returns_the_weights_of_its_attention(config):
    attention = SelfAttention(config, 12, 3, 0.0)
    layer = TransformerEncoderLayer(config, attention).eval()
    states, mask = torch.randn(2, 5, 12), torch.ones(2, 1, 1, 5, dtype=torch.bool)
    mask[1, ..., 3:] = False
    _, expected = attention(layer.self_attention_norm(states) if config.norm == "pre" else states, mask)
    output, weights = layer(states, mask)
    attended = sub_layer(config, layer.self_attention_norm, states, lambda read: attention(read, mask)[0])
    torch.testing.assert_close(output, sub_layer(config, layer.feed_forward_norm, attended, layer.feed_forward))
    torch.testing.assert_close(weights, expected)
    assert weights.shape == (2, 3, 5, 5)
    assert not weights[1, ..., 3:].any()


@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
def test_decoder_layer_returns_context_and_weights_of_its_attention_to_the_source(config, implementation):
    config._attn_implementation = implementation
    layer = TransformerDecoderLayer(config, 0).eval()
    # two beams of each of two documents
    states, source = torch.randn(4, 3, 12), torch.randn(2, 5, 12)
    output, context, weights = layer(states, source, needs_weights=True)
    attended = sub_layer(config, layer.self_attention_norm, states, lambda read: layer.self_attention(read, None)[0])
    read = layer.cross_attention_norm(attended) if config.norm == "pre" else attended
    for row in range(4):
        document = source[row // 2]
        queries, keys, values = (
            projection(read).unflatten(-1, (3, 4)).transpose(0, 1)
            for projection, read in (
                (layer.cross_attention.q_proj, read[row]),
                (layer.cross_attention.k_proj, document),
                (layer.cross_attention.v_proj, document),
            )
        )
        expected = (queries @ keys.transpose(1, 2) / 2).softmax(-1)
        torch.testing.assert_close(weights[row], expected)
        heads = (expected @ values).transpose(0, 1).flatten(1)
        torch.testing.assert_close(context[row], layer.cross_attention.out_proj(heads))
    between = sub_layer(config, layer.cross_attention_norm, attended, lambda read: context)
    torch.testing.assert_close(output, sub_layer(config, layer.feed_forward_norm, between, layer.feed_forward))


@pytest.mark.parametrize(("name", "function"), [("relu", nn.functional.relu), ("gelu", nn.functional.gelu)])
def test_feed_forward_network_has_the_activation_that_is_named(config, name, function):
    states = torch.randn(2, 3, 12)
    networks = [
        FeedForward(12, 20, name),
        TransformerEncoderLayer(config, nn.Identity(), activation=name).feed_forward,
        TransformerDecoderLayer(config, 0, activation=name).feed_forward,
    ]
    for network in networks:
        torch.testing.assert_close(network(states), network.outer(function(network.inner(states))))


def test_unknown_activation_is_named():
    with pytest.raises(KeyError, match="swoosh"):
        FeedForward(12, 20, "swoosh")


def test_positions_go_on_behind_those_that_were_seen():
    positions, embeddings = SinusoidalPositions(7), torch.zeros(2, 9, 7)
    whole = positions(embeddings)
    assert whole.shape == (9, 7)
    torch.testing.assert_close(positions(embeddings[:, 4:], seen=4), whole[4:])
    assert positions(embeddings.half()).dtype == torch.float16
