"""DRGD's decoder, training step and `generate()`, compared with usual implementations.

- Decoder: its own backpropagation through time, compared with a loop of GRU steps that computes the source's keys
  once. The reset gate is before the recurrent product (the default) or after it; then the loop uses torch's GRUCells.
- Training step: the peer is that loop with the latent chain and the output layers inside, an encoder of GRUCells, and
  cross-entropy over all logits. "As printed", the loop computes the keys at each step.
- `generate()`: the peer is the same model with its source repeated for each beam.

Run: python benchmarks/recurrent_decoder.py
"""

import argparse
import functools
from unittest.mock import patch

from measuring import cpu_seconds, fix_allocator, peak_mebibytes, print_table

fix_allocator()

import torch
from peers import count, drgd
from torch import nn
from transformers import GenerationMixin
from transformers.cache_utils import EncoderDecoderCache

from hf_summ import DrgdForConditionalGeneration
from hf_summ.models.layers_recurrent import AttentiveGrus, AttentiveStates
from hf_summ.models.modeling_base import SharedSourceCache
from hf_summ.models.modeling_drgd import draw_noise, gaussian_kl

COLUMNS = ["formulation", "ms", "peak, MiB", "times faster", "of the memory"]


def gru_step(cell: nn.GRUCell, reset_after: bool, inputs, state):
    """The next state: the cell's own, or with the reset gate before the product."""
    if reset_after:
        return nn.GRUCell.forward(cell, inputs, state)
    gates = 2 * cell.hidden_size
    inputs = nn.functional.linear(inputs, cell.weight_ih, cell.bias_ih)
    recurrent = nn.functional.linear(state, cell.weight_hh[:gates], cell.bias_hh[:gates])
    reset, update = torch.sigmoid(inputs[:, :gates] + recurrent).chunk(2, dim=-1)
    recurrent = nn.functional.linear(reset * state, cell.weight_hh[gates:], cell.bias_hh[gates:])
    return torch.lerp(torch.tanh(inputs[:, gates:] + recurrent), state, update)


def loop(layer: AttentiveGrus, words, source, keys, mask, state):
    """The same as `layer`, step by step."""
    steps = []
    for position in range(words.shape[1]):
        first = gru_step(layer.first_gru, layer.reset_after, words[:, position], state)
        scores = torch.tanh(keys + nn.functional.linear(first, layer.query_weight)[:, None])
        scores = nn.functional.linear(scores, layer.score_weight)[..., 0]
        attention = scores.masked_fill(~mask, torch.finfo(scores.dtype).min).softmax(-1)
        context = (attention[:, None] @ source)[:, 0]
        state = gru_step(layer.second_gru, layer.reset_after, context, first)
        steps.append((first, state, context, attention))
    return AttentiveStates(*(torch.stack(states, dim=1) for states in zip(*steps, strict=True)))


def decoder(batch: int, target: int, source: int, rounds: int) -> None:
    """Measure forward and backward passes of the two GRUs and their attention, with all gradients."""
    layers = [AttentiveGrus(300, 500, 1000, 1000, True, reset_after) for reset_after in (False, True)]
    for layer in layers:
        for parameter in layer.parameters():
            nn.init.normal_(parameter, std=0.04)
    inputs = [torch.randn(batch, target, 300), torch.randn(batch, source, 1000), torch.randn(batch, 500)]
    for tensor in inputs:
        tensor.requires_grad_()
    words, states, start = inputs
    mask = torch.arange(source) < torch.randint(source // 2, source + 1, (batch, 1))
    weights = [torch.randn(batch, target, width) for width in (500, 500, 1000, source)]

    def run(layer, is_loop):
        keys = layer.key_projection(states)
        arguments = words, states, keys, mask, start
        outputs = loop(layer, *arguments) if is_loop else layer(*arguments, start)
        total = sum((output * weight).sum() for output, weight in zip(outputs, weights, strict=True))
        return torch.autograd.grad(total, [*inputs, *layer.parameters()])

    candidates = {}
    for layer, gate in zip(layers, ("before", "after"), strict=True):
        for one, other in zip(run(layer, True), run(layer, False), strict=True):
            torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-4 * other.abs().max().item())
        for name, is_loop in (("loop", True), ("AttentiveGrus", False)):
            candidates[f"{name}, gate {gate}"] = functools.partial(run, layer, is_loop)
    del one, other
    compare(f"decoder, batch {batch}, target {target}, source {source}", candidates, rounds)


def encode(gru: nn.GRU, words, mask):
    """The GRU's states from GRUCells, zero at padding, which does not change the state."""
    cell = nn.GRUCell(gru.input_size, gru.hidden_size)
    for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
        setattr(cell, name, getattr(gru, f"{name}_l0"))
    state, states = words.new_zeros(len(words), gru.hidden_size), []
    for position in range(words.shape[1]):
        state = torch.where(mask[:, position, None], cell(words[:, position], state), state)
        states.append(state)
    return torch.stack(states, dim=1) * mask[..., None]


def step_of_loops(model, input_ids, attention_mask, labels, keys_outside=True):
    """The model's loss (`released`, without copying), in one loop over the summary and with all logits."""
    embed, encoder, head = model.model.shared, model.model.encoder, model.model.decoder
    chain, output = head.latent_chain, head.output
    mask = attention_mask.bool()
    words = embed(model.prepare_decoder_input_ids_from_labels(labels))
    # drawn before new cells draw their weights
    noise = draw_noise(words, model.config.latent_size, "released")
    read = embed(input_ids)
    source = torch.cat(
        (
            encode(encoder.gru.forward_gru, read, mask),
            encode(encoder.gru.backward_gru, read.flip(1), mask.flip(1)).flip(1),
        ),
        dim=-1,
    )
    keys = head.states.key_projection(source)
    state = torch.tanh(head.start(source.sum(1) / mask.sum(-1, keepdim=True)))
    latent = state.new_zeros(len(state), model.config.latent_size)
    logits, kl = [], 0.0
    for position in range(labels.shape[1]):
        word = words[:, position]
        if not keys_outside:
            keys = head.states.key_projection(source)
        (first,), (state,), (context,), _ = (
            states.transpose(0, 1) for states in loop(head.states, word[:, None], source, keys, mask, state)
        )
        gate = chain.word_projection(word) + chain.latent_projection(latent) + chain.state_projection(first)
        gate = torch.sigmoid(gate)
        mean, log_variance = chain.mean(gate), chain.log_variance(gate)
        latent = mean + (0.5 * log_variance).exp() * noise[:, position]
        kl = kl + gaussian_kl(mean, log_variance).sum()
        logits.append(model.lm_head(output(word, state, context, latent)[0]))
    nll = nn.functional.cross_entropy(torch.stack(logits, dim=1).flatten(0, 1), labels.flatten())
    return nll + model.kl_weight * kl / labels.numel()


def training(batch: int, target: int, source: int, rounds: int) -> None:
    """Measure a training step of the paper's model with Adam."""
    model = drgd().train()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-5)
    inputs = {
        "input_ids": torch.randint(4, model.config.vocab_size, (batch, source)),
        "attention_mask": torch.ones(batch, source, dtype=torch.long),
        "labels": torch.randint(4, model.config.vocab_size, (batch, target)),
    }

    def losses():
        torch.manual_seed(1)
        yield model(**inputs).loss
        torch.manual_seed(1)
        yield step_of_loops(model, **inputs)

    torch.testing.assert_close(*losses(), rtol=1e-4, atol=1e-4)

    def step(loss):
        loss().backward()
        optimizer.step()
        optimizer.zero_grad()

    compare(
        f"training step of DRGD ({count(model) / 1e6:.1f}M), batch {batch}, target {target}, source {source}",
        {
            "as printed": lambda: step(lambda: step_of_loops(model, **inputs, keys_outside=False)),
            "keys outside": lambda: step(lambda: step_of_loops(model, **inputs)),
            "DRGD": lambda: step(lambda: model(**inputs).loss),
        },
        rounds,
    )


class Repeating(DrgdForConditionalGeneration):
    """The same model with its source repeated for each beam, as in transformers' models."""

    def _expand_inputs_for_generation(self, *args, **kwargs):
        return GenerationMixin._expand_inputs_for_generation(self, *args, **kwargs)


def decoding(documents: int, beams: int, source: int, length: int, rounds: int) -> None:
    """Measure `generate()` of the paper's model."""
    model = drgd().eval()
    # a new model gives all words the same score
    model.lm_head.bias.data.normal_(std=2.0)
    repeating = Repeating(model.config).eval()
    repeating.load_state_dict(model.state_dict())
    inputs = {
        "input_ids": torch.randint(4, model.config.vocab_size, (documents, source)),
        "attention_mask": torch.ones(documents, source, dtype=torch.long),
    }
    settings = {"num_beams": beams, "max_new_tokens": length, "min_new_tokens": length, "do_sample": False}

    def generate_repeating():
        # reorder the repeated source with the beams
        with patch.object(SharedSourceCache, "reorder_cache", EncoderDecoderCache.reorder_cache):
            return repeating.generate(**inputs, **settings)

    candidates = {"source repeated": generate_repeating, "DRGD": lambda: model.generate(**inputs, **settings)}
    torch.testing.assert_close(*(candidate() for candidate in candidates.values()), rtol=0, atol=0)
    compare(f"generate(), {documents} documents of {source} tokens, {beams} beams, {length} tokens", candidates, rounds)


def compare(title: str, candidates: dict, rounds: int) -> None:
    """Print time and memory of the candidates, and ratios to the first one."""
    times = cpu_seconds(candidates, rounds)
    peaks = {name: peak_mebibytes(candidate) for name, candidate in candidates.items()}
    first = next(iter(candidates))
    rows = [
        [
            name,
            f"{1000 * times[name]:.0f}",
            f"{peaks[name]:.0f}",
            f"{times[first] / times[name]:.2f}",
            f"{peaks[name] / peaks[first]:.2f}",
        ]
        for name in candidates
    ]
    print_table(title, COLUMNS, rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--settings", nargs="*", default=["32x30x120", "80x20x60"], help="batch x target x source")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    torch.manual_seed(0)
    decoding(8, 10, 60, 20, arguments.rounds)
    decoding(8, 10, 120, 20, arguments.rounds)
    for setting in arguments.settings:
        sizes = [int(size) for size in setting.split("x")]
        decoder(*sizes, arguments.rounds)
        training(*sizes, arguments.rounds)


if __name__ == "__main__":
    main()
