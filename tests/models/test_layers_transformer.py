"""The Transformer's layers: their outputs and their settings."""

import pytest
import torch
from torch import nn

from hf_summ.models import CopyTransformerConfig
from hf_summ.models.layers_transformer import (
    FeedForward,
    SelfAttention,
    SinusoidalPositions,
    TransformerDecoderLayer,
    TransformerEncoderLayer,
)


@pytest.fixture
def config() -> CopyTransformerConfig:
    config = CopyTransformerConfig(d_model=12, num_heads=3, ffn_dim=20, dropout=0.0, attention_dropout=0.0)
    config._attn_implementation = "eager"
    return config


def test_encoder_layer_returns_the_weights_of_its_attention(config):
    attention = SelfAttention(config, 12, 3, 0.0)
    layer = TransformerEncoderLayer(config, attention).eval()
    states, mask = torch.randn(2, 5, 12), torch.ones(2, 1, 1, 5, dtype=torch.bool)
    mask[1, ..., 3:] = False
    context, expected = attention(states, mask)
    output, weights = layer(states, mask)
    attended = layer.self_attention_norm(states + context)
    torch.testing.assert_close(output, layer.feed_forward_norm(attended + layer.feed_forward(attended)))
    torch.testing.assert_close(weights, expected)
    assert weights.shape == (2, 3, 5, 5)
    assert not weights[1, ..., 3:].any()


@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
def test_decoder_layer_returns_context_and_weights_of_its_attention_to_the_source(config, implementation):
    config._attn_implementation = implementation
    layer = TransformerDecoderLayer(config, 0, needs_weights=True).eval()
    # two beams of each of two documents
    states, source = torch.randn(4, 3, 12), torch.randn(2, 5, 12)
    output, context, weights = layer(states, source)
    attended, _ = layer.self_attention(states, None)
    attended = layer.self_attention_norm(states + attended)
    for row in range(4):
        document = source[row // 2]
        queries, keys, values = (
            projection(read).unflatten(-1, (3, 4)).transpose(0, 1)
            for projection, read in (
                (layer.cross_attention.q_proj, attended[row]),
                (layer.cross_attention.k_proj, document),
                (layer.cross_attention.v_proj, document),
            )
        )
        expected = (queries @ keys.transpose(1, 2) / 2).softmax(-1)
        torch.testing.assert_close(weights[row], expected)
        heads = (expected @ values).transpose(0, 1).flatten(1)
        torch.testing.assert_close(context[row], layer.cross_attention.out_proj(heads))
    between = layer.cross_attention_norm(attended + context)
    torch.testing.assert_close(output, layer.feed_forward_norm(between + layer.feed_forward(between)))


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
