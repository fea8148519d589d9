"""DRGD, the deep recurrent generative decoder, and StanD, its baseline without latent variables.

See Li et al. 2017, and docs/equations.md, section 4. The config's `equations` selects the equations of the authors'
program (`released`) or the equations of the paper (`printed`).

Shapes: B documents, R rows of the decoder (the beams of a document are consecutive rows), S source positions, T
positions of the summary, L latent variables, states of width k.
"""

from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import nn
from transformers import initialization as init
from transformers.utils.generic import merge_with_config_defaults

from .checks import added_settings
from .configuration_drgd import DrgdConfig
from .generation_mixin import running_generation
from .layers_copying import keys_once, mean_over_targets, summed_coverage
from .layers_recurrent import AttentiveGrus, BidirectionalGru
from .modeling_base import DecoderStateLayer, SummarizationPreTrainedModel, check_prompts, make_decoder_cache
from .modeling_copying import (
    CopyDecoderOutput,
    CopyEncoderOutput,
    CopyingForConditionalGeneration,
    CopyingModel,
    CopyModelOutput,
    CopySummarizationOutput,
)
from .text_documents import check_vocabulary
from .text_processing_recurrent import replace_unknown

# the largest absolute value of noise in the authors' program
_LARGEST_NOISE = 5.0


class LatentChain(nn.Module):
    """A chain of latent variables z ~ N(μ, σ²), which depend on the latent variables of the previous position.

        g = σ(W_y y + W_z z' + W_h h + b),  μ = W_μ g + b,  log σ² = W_σ g + b,  z = μ + σ ε

    Here y is the word, z' are the previous position's variables, and h is the first GRU's state at the same position
    (`released`) or at the previous position (`printed`).
    """

    def __init__(self, word_width: int, state_width: int, latent_size: int):
        super().__init__()
        self.word_projection = nn.Linear(word_width, state_width)
        self.latent_projection = nn.Linear(latent_size, state_width, bias=False)
        self.state_projection = nn.Linear(state_width, state_width, bias=False)
        self.mean = nn.Linear(state_width, latent_size)
        self.log_variance = nn.Linear(state_width, latent_size)

    def forward(
        self, words: torch.Tensor, states: torch.Tensor, latent: torch.Tensor, noise: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Compute z, μ and log σ² of all positions, (R, T, L) each.

        Args:
            words, states: (R, T, E) and (R, T, k), y and h.
            latent: (R, L), z' of the first position.
            noise: (R, T, L), ε; None for zeros, so that z is μ.
        """
        inputs = self.word_projection(words) + self.state_projection(states)
        latents, means, log_variances = [], [], []
        for position in range(inputs.shape[1]):
            gate = torch.sigmoid(inputs[:, position] + self.latent_projection(latent))
            mean = self.mean(gate)
            log_variance = self.log_variance(gate)
            latent = mean
            if noise is not None:
                # in half precision, e¹² overflows
                dtype = torch.promote_types(log_variance.dtype, torch.float32)
                deviation = (0.5 * log_variance.to(dtype)).exp()
                latent = mean + (deviation * noise[:, position]).to(mean.dtype)
            latents.append(latent)
            means.append(mean)
            log_variances.append(log_variance)
        return torch.stack(latents, dim=1), torch.stack(means, dim=1), torch.stack(log_variances, dim=1)


def draw_noise(like: torch.Tensor, size: int, equations: str) -> torch.Tensor:
    """Draw the noise ε (R, T, size) of latent variables from torch's random numbers; `released` equations clip it.

    `like` (R, T, …) determines rows, positions, dtype and device.
    """
    noise = torch.randn(*like.shape[:2], size, dtype=like.dtype, device=like.device)
    return _clipped(noise, equations)


def seeded_noise(like: torch.Tensor, size: int, equations: str, seed: int, seen: int) -> torch.Tensor:
    """As `draw_noise`, but the noise of a position depends on `seed` and the position alone, and all rows share it.

    A beam therefore keeps its noise when beams are reordered, and a document's summary does not depend on its batch.

    Args:
        seen: the first position.
    """
    positions = []
    for position in range(seen, seen + like.shape[1]):
        generator = torch.Generator().manual_seed((seed * 1_000_003 + position) % 2**63)
        positions.append(torch.randn(size, generator=generator, dtype=torch.float64, device="cpu"))
    noise = torch.stack(positions).to(like.device, like.dtype).expand(like.shape[0], -1, -1)
    return _clipped(noise, equations)


def _clipped(noise: torch.Tensor, equations: str) -> torch.Tensor:
    """The noise, whose absolute value is limited if `equations` is `released`."""
    if equations == "released":
        return noise.clamp(-_LARGEST_NOISE, _LARGEST_NOISE)
    return noise


def gaussian_kl(mean: torch.Tensor, log_variance: torch.Tensor) -> torch.Tensor:
    """KL divergence of N(μ, σ²) from N(0, I), summed over the latent variables: (…, L) -> (…), at least float32."""
    dtype = torch.promote_types(mean.dtype, torch.float32)
    mean, log_variance = mean.to(dtype), log_variance.to(dtype)
    return 0.5 * (mean.square() + log_variance.exp() - 1.0 - log_variance).sum(-1)


class GatedOutput(nn.Module):
    """The `released` features: a gate mixes latent variables and state, and a layer of embedding width follows.

        z' = tanh(W z + b),  u = σ(W h + W z' + b),  d = u ⊙ h + (1 - u) ⊙ z',  features = tanh(W d + W y + W c + b)

    Here y is the word, h the second GRU's state, c the context and z are the latent variables; each W and b has its own
    values. With a `latent_size` of 0, d is h. The attribute `width` is the width of the features.
    """

    def __init__(self, word_width: int, state_width: int, source_width: int, latent_size: int):
        super().__init__()
        self.latent_projection = None
        if latent_size:
            self.latent_projection = nn.Linear(latent_size, state_width)
            self.gate = nn.Linear(2 * state_width, state_width)
        self.projection = nn.Linear(state_width + word_width + source_width, word_width)
        self.width = word_width

    def forward(self, words, states, contexts, latent=None) -> tuple[torch.Tensor, torch.Tensor]:
        """y, h, c and z (R, T, …) -> the features (R, T, width), from which words are scored, and d (R, T, k)."""
        if self.latent_projection is not None:
            latent = torch.tanh(self.latent_projection(latent))
            gate = torch.sigmoid(self.gate(torch.cat((states, latent), dim=-1)))
            states = gate * states + (1 - gate) * latent
        return torch.tanh(self.projection(torch.cat((states, words, contexts), dim=-1))), states


class SummedOutput(nn.Module):
    """The `printed` features: d = tanh(W z + W h + b), and with a `latent_size` of 0, d is h; see `GatedOutput`."""

    def __init__(self, word_width: int, state_width: int, source_width: int, latent_size: int):
        super().__init__()
        self.projection = nn.Linear(latent_size + state_width, state_width) if latent_size else None
        self.width = state_width

    def forward(self, words, states, contexts, latent=None) -> tuple[torch.Tensor, torch.Tensor]:
        """y, h, c and z (R, T, …) -> the features and d; both are d (R, T, k)."""
        if latent is not None and self.projection is not None:
            states = torch.tanh(self.projection(torch.cat((latent, states), dim=-1)))
        return states, states


@dataclass
class DrgdDecoderOutput(CopyDecoderOutput):
    """`CopyDecoderOutput` with the latent variables; see `DrgdOutput`."""

    latent_kl: torch.Tensor | None = None
    latent_means: torch.Tensor | None = None


@dataclass
class DrgdModelOutput(CopyModelOutput):
    """`CopyModelOutput` with the latent variables; see `DrgdOutput`."""

    latent_kl: torch.Tensor | None = None
    latent_means: torch.Tensor | None = None


@dataclass
class DrgdOutput(CopySummarizationOutput):
    """`CopySummarizationOutput` with the latent variables.

    Attributes:
        latent_kl: (R, T), KL divergence of each position's variables from their prior, in nats, at least float32.
        latent_means: (R, T, L), the variables' means.
    """

    latent_kl: torch.Tensor | None = None
    latent_means: torch.Tensor | None = None


class DrgdPreTrainedModel(SummarizationPreTrainedModel):
    """Base of the DRGD models."""

    config_class = DrgdConfig
    # the backward pass of the decoder's layers stores so little that checkpointing would gain nothing
    supports_gradient_checkpointing = False
    # encoder and decoder use weights of their modules directly, so each must be on one device
    _no_split_modules = ["DrgdEncoder", "DrgdDecoder"]

    @torch.no_grad()
    def _init_weights(self, module):
        if isinstance(module, nn.Linear):
            init.xavier_normal_(module.weight)
            if module.bias is not None:
                init.zeros_(module.bias)
        elif isinstance(module, AttentiveGrus):
            init.xavier_normal_(module.query_weight)
            init.xavier_normal_(module.score_weight)
        elif isinstance(module, (nn.GRU, nn.GRUCell)):
            for name, parameter in module.named_parameters():
                # transformers marks a loaded weight, but the chunks below would not have the mark
                if getattr(parameter, "_is_hf_initialized", False):
                    continue
                for gate in parameter.chunk(3):
                    if "bias" in name:
                        init.zeros_(gate)
                    elif "weight_hh" in name:
                        init.orthogonal_(gate)
                    else:
                        init.xavier_normal_(gate)
        else:
            super()._init_weights(module)


class DrgdEncoder(DrgdPreTrainedModel):
    """Encodes the source with a bidirectional GRU."""

    def __init__(self, config: DrgdConfig, embed_tokens: nn.Embedding):
        super().__init__(config)
        self.embed_tokens = embed_tokens
        self.dropout = nn.Dropout(config.dropout)
        self.gru = BidirectionalGru(config.embedding_size, config.hidden_size)
        self.post_init()

    def forward(self, input_ids=None, attention_mask=None, inputs_embeds=None, **kwargs):
        """`input_ids` and `attention_mask` (B, S) -> last_hidden_state (B, S, 2 k), zero at padding."""
        inputs_embeds = self.embed(input_ids, inputs_embeds)
        padding_mask = None if attention_mask is None else attention_mask.bool()
        hidden_states = self.gru(self.dropout(inputs_embeds), padding_mask)
        return CopyEncoderOutput(last_hidden_state=hidden_states, source_ids=input_ids)


class DrgdDecoder(DrgdPreTrainedModel):
    """Maps the summary so far to features that score the next word: two GRUs, an attention and a latent chain."""

    def __init__(self, config: DrgdConfig, embed_tokens: nn.Embedding):
        super().__init__(config)
        word_width = config.embedding_size
        width = config.hidden_size
        source_width = 2 * width
        is_released = config.equations == "released"
        attention_width = source_width if is_released else width
        output_class = GatedOutput if is_released else SummedOutput
        self.embed_tokens = embed_tokens
        self.dropout = nn.Dropout(config.dropout)
        self.start = nn.Linear(source_width, width)
        self.states = AttentiveGrus(
            word_width, width, source_width, attention_width, shares_state=is_released, reset_after=config.reset_after
        )
        latent_size = config.latent_size
        self.latent_chain = LatentChain(word_width, width, latent_size) if latent_size else None
        self.output = output_class(word_width, width, source_width, latent_size)
        self.copy_gate = nn.Linear(width + source_width + word_width, 1) if config.copy else None
        self.post_init()

    @merge_with_config_defaults
    def forward(
        self,
        input_ids=None,
        attention_mask=None,
        encoder_hidden_states=None,
        encoder_attention_mask=None,
        cache=None,
        inputs_embeds=None,
        use_cache=None,
        output_attentions=None,
        latent_seed=None,
        zero_latent=False,
        **kwargs,
    ):
        """`input_ids` (R, T), R = B · beams; `encoder_hidden_states` (B, S, 2 k) -> last_hidden_state (R, T, W).

        W is the width of the features from which words are scored. The output also has the copy distributions (R, T, S)
        and, if there are latent variables, their KL (R, T) and means (R, T, L). In training, the latent variables are
        sampled. Otherwise their means are used.

        Args:
            output_attentions: whether to return the attention also as cross_attentions, one layer with one head.
            latent_seed: if given, the latent variables are sampled outside training as well, with this seed.
            zero_latent: whether to replace the latent variables by zeros in the output layer's input.
        """
        check_prompts(attention_mask)
        inputs_embeds = self.embed(input_ids, inputs_embeds)
        words = self.dropout(self._drop_words(inputs_embeds))
        rows, length = words.shape[:2]
        source = cast(torch.Tensor, encoder_hidden_states)
        source_mask = None if encoder_attention_mask is None else encoder_attention_mask.bool()
        if use_cache and cache is None:
            cache = make_decoder_cache([DecoderStateLayer()])
        layer = None if cache is None else cache.self_attention_cache.layers[0]
        if layer is not None and layer.states:
            start = layer.states
        else:
            start = self.start_states(source, source_mask, rows)
        first, second = start["first"], start["second"]
        keys = keys_once(self.states.key_projection, source, cache, layer_index=0)
        states = self.states(words, source, keys, source_mask, first, second)
        cross_attentions = None
        if output_attentions:
            # (R, 1, T, S), as if the attention had heads
            returned_attention = states.attention[:, None]
            cross_attentions = (returned_attention,)
            if torch.is_grad_enabled():
                # callers may read the gradient of the returned tensor, so the states are computed again from it
                attention = returned_attention[:, 0]
                states = self.states(words, source, keys, source_mask, first, second, attention)
        latents, means, kl = None, None, None
        if self.latent_chain is not None:
            latent_inputs = states.first
            if self.config.equations == "printed":
                # the states of the previous positions
                latent_inputs = torch.cat((first[:, None].to(states.first.dtype), states.first[:, :-1]), dim=1)
            seen = 0 if layer is None else layer.seen_positions
            noise = self._latent_noise(words, latent_seed, seen)
            latents, means, log_variances = self.latent_chain(words, latent_inputs, start["latent"], noise)
            kl = gaussian_kl(means, log_variances)
        output_latents = latents
        if zero_latent and latents is not None:
            output_latents = torch.zeros_like(latents)
        features, combined = self.output(words, states.second, states.contexts, output_latents)
        coverage = summed_coverage(states.attention, attention_mask, cache)
        if layer is not None:
            layer.states["first"] = states.first[:, -1]
            layer.states["second"] = states.second[:, -1]
            if latents is not None:
                layer.states["latent"] = latents[:, -1]
            layer.advance(length)
        gate_logits = None
        if self.copy_gate is not None:
            gate_logits = self.copy_gate(torch.cat((combined, states.contexts, words), dim=-1))[..., 0]
        return DrgdDecoderOutput(
            last_hidden_state=self.dropout(features),
            cache=cache,
            cross_attentions=cross_attentions,
            copy_attentions=states.attention,
            coverage=coverage,
            copy_gate_logits=gate_logits,
            latent_kl=kl,
            latent_means=means,
        )

    def _drop_words(self, words: torch.Tensor) -> torch.Tensor:
        """In training, set the embeddings (R, T, E) of a random share of the words to zero."""
        if not self.training or not self.config.word_dropout:
            return words
        is_kept = torch.rand(*words.shape[:2], 1, device=words.device) >= self.config.word_dropout
        # unlike other dropout, this one does not scale the words that remain
        return words * is_kept

    def _latent_noise(self, words: torch.Tensor, latent_seed: int | None, seen: int) -> torch.Tensor | None:
        """The noise (R, T, L) of the latent variables, from position `seen` on; None if their means are used."""
        if latent_seed is not None:
            return seeded_noise(words, self.config.latent_size, self.config.equations, latent_seed, seen)
        if self.training:
            return draw_noise(words, self.config.latent_size, self.config.equations)
        return None

    def start_states(self, source: torch.Tensor, mask: torch.Tensor | None, rows: int) -> dict[str, torch.Tensor]:
        """The states before the first position, by name.

        `first` and `second`, of the GRUs, are tanh(W mean_j e_j + b) (R, k) for the encoder's states e (B, S, 2 k) of
        the tokens of a row's document. With latent variables, `latent` is zero (R, L).
        """
        # e is zero at padding
        tokens = source.shape[1] if mask is None else mask.sum(-1, keepdim=True).clamp(min=1)
        document_states = torch.tanh(self.start(source.sum(1) / tokens))
        state = document_states.repeat_interleave(rows // source.shape[0], dim=0)
        states = {"first": state, "second": state}
        if self.latent_chain is not None:
            states["latent"] = state.new_zeros(rows, self.config.latent_size)
        return states


class DrgdModel(DrgdPreTrainedModel, CopyingModel):
    """DRGD's encoder and decoder, which share their embedding."""

    encoder_class, decoder_class = DrgdEncoder, DrgdDecoder
    output_class = DrgdModelOutput


class DrgdForConditionalGeneration(DrgdPreTrainedModel, CopyingForConditionalGeneration):
    """DRGD with its output layer, which shares the embedding matrix if the config's `tie_output` is set.

    `forward` also takes `latent_seed` and `zero_latent`; see `DrgdDecoder`. The loss is the NLL plus the weighted KL,
    and `loss_parts` has both. `generate()` also has the settings `sample_latent`, `latent_seed` and `replace_unk`.
    """

    output_class = DrgdOutput
    generation_keys = added_settings("drgd")

    def __init__(self, config: DrgdConfig):
        super().__init__(config)
        self.model = DrgdModel(config)
        self.lm_head = nn.Linear(self.model.decoder.output.width, config.vocab_size)
        if config.tie_output:
            self._tied_weights_keys = {"lm_head.weight": "model.shared.weight"}
        # the number of updates so far; None before `set_update`, when the KL has its final weight
        self._updates: int | None = None
        self.post_init()

    def set_update(self, updates: int) -> None:
        """Set the number of updates so far, from which the warm-up computes the weight of the KL."""
        self._updates = updates

    @property
    def kl_weight(self) -> float:
        """The weight of the KL in the loss; in training, it rises from 0 over `kl_warmup_steps` updates."""
        warmup_steps = self.config.kl_warmup_steps
        # evaluation has the final weight, so that the losses of different updates can be compared
        if not self.training or self._updates is None or not warmup_steps:
            return self.config.final_kl_weight
        return self.config.final_kl_weight * min(1.0, self._updates / warmup_steps)

    def check_generation_keys(self, generation_config) -> None:
        """Raise a ValueError for a setting that is out of range, or for `sample_latent` without latent variables."""
        super().check_generation_keys(generation_config)
        if getattr(generation_config, "sample_latent", None) and not self.config.latent_size:
            raise ValueError("`sample_latent` is True, but a model with `latent_size=0` has no latent variables")

    def _prepare_generation_config(self, *args, **kwargs):
        config, model_kwargs = super()._prepare_generation_config(*args, **kwargs)
        running = running_generation()
        # a whole sentence has no word to replace
        if config.replace_unk and not config.whole_sentences and running is not None:
            running.unknown_id = self._unknown_token_id()
        if config.sample_latent:
            seed = config.latent_seed
            if seed is None:
                # torch's generator draws it, so that transformers' `set_seed` makes it repeatable
                seed = int(torch.randint(2**31, (1,)))
            self._add_step_input("latent_seed", seed)
        return config, model_kwargs

    def _update_model_kwargs_for_generation(self, outputs, *args, **kwargs):
        updated = super()._update_model_kwargs_for_generation(outputs, *args, **kwargs)
        running = running_generation()
        if running is not None and running.unknown_id is not None:
            # `_finished` computes the attention to the source again
            for name in ("encoder_outputs", "attention_mask"):
                running.source[name] = updated.get(name)
        return updated

    def _unknown_token_id(self) -> int:
        """The tokenizer's id of unknown words; a ValueError is raised if it has none."""
        tokenizer = self._word_tokenizer()
        check_vocabulary(tokenizer, self.config.vocab_size)
        if tokenizer.unk_token_id is None:
            raise ValueError("`replace_unk` needs unknown words, but the tokenizer has no `unk_token`: set it to False")
        return tokenizer.unk_token_id

    @torch.no_grad()
    def _finished(self, sequences, running):
        """The summaries (R, L) of `generate()`, with source words for unknown words if `replace_unk` is set."""
        sequences = super()._finished(sequences, running)
        unknown_id = running.unknown_id
        if unknown_id is None or not (sequences[:, 1:] == unknown_id).any():
            return sequences
        # beams were reordered since their steps computed the attention, so it is computed again for the whole summaries
        outputs = self.model(decoder_input_ids=sequences[:, :-1], use_cache=False, **running.source)
        if outputs.source_ids is None:
            raise ValueError("`replace_unk` needs the source's words: give `input_ids`")
        special_ids = [token for token in self._word_tokenizer().all_special_ids if token != unknown_id]
        replaced = replace_unknown(
            sequences.numpy(force=True),
            outputs.copy_attentions.double().numpy(force=True),
            self.known_ids(outputs.source_ids).numpy(force=True),
            unknown_id,
            special_ids,
        )
        return torch.tensor(replaced, device=sequences.device)

    def _score(self, outputs, inputs, labels, num_items_in_batch, skip_logits) -> dict[str, Any]:
        scored = super()._score(outputs, inputs, labels, num_items_in_batch, skip_logits)
        if labels is None or outputs.latent_kl is None:
            return scored
        kl = mean_over_targets(outputs.latent_kl, labels, num_items_in_batch)
        penalized_kl = outputs.latent_kl
        if self.config.free_bits:
            # each token's KL has this minimum: with a minimum of the mean, a token's loss would depend on its batch
            penalized_kl = penalized_kl.clamp(min=self.config.free_bits)
        penalty = self.kl_weight * mean_over_targets(penalized_kl, labels, num_items_in_batch)
        loss_parts = scored["loss_parts"] | {"kl": kl.detach()}
        return scored | {"loss": scored["loss"] + penalty, "loss_parts": loss_parts}


__all__ = ["DrgdForConditionalGeneration", "DrgdModel", "DrgdPreTrainedModel"]
