"""DRGD, and StanD, its baseline without the latent part (Li et al. 2017; docs/equations.md, section 4)."""

from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import nn
from transformers import initialization as init
from transformers.utils.generic import merge_with_config_defaults

from .checks import own_settings
from .configuration_drgd import DrgdConfig
from .generation_mixin import running_generation
from .layers_copying import keys_once, mean_over_targets, summed_coverage
from .layers_recurrent import AttentiveGrus, BidirectionalGru
from .layers_transformer import cache_argument
from .modeling_base import DecoderStateLayer, SummarizationPreTrainedModel, make_decoder_cache
from .modeling_copying import (
    CopyDecoderOutput,
    CopyEncoderOutput,
    CopyingForConditionalGeneration,
    CopyingModel,
    CopyModelOutput,
    CopySummarizationOutput,
    check_prompts,
)
from .text_documents import check_vocabulary
from .text_processing_recurrent import replace_unknown

# the authors' program clips the noise here
_LARGEST_NOISE = 5.0


class LatentChain(nn.Module):
    """The chain of latent variables z ~ N(μ, σ²), computed from words and states.

        g = σ(W_y y + W_z z' + W_h h + b),  μ = W_μ g + b,  log σ² = W_σ g + b,  z = μ + σ ε

    z' is the previous variable, and h is the first GRU's state at the same position (`released`), or at the previous
    one (`printed`).
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
        """Words and states (R, T, …), the previous z (R, L) and noise ε (R, T, L) -> z, μ and log σ², (R, T, L).

        Without noise, z is μ.
        """
        inputs = self.word_projection(words) + self.state_projection(states)
        latents, means, log_variances = [], [], []
        for position in range(inputs.shape[1]):
            gate = torch.sigmoid(inputs[:, position] + self.latent_projection(latent))
            mean, log_variance = self.mean(gate), self.log_variance(gate)
            latent = mean
            if noise is not None:
                # e¹² overflows in half precision
                deviation = (0.5 * log_variance.to(torch.promote_types(log_variance.dtype, torch.float32))).exp()
                latent = mean + (deviation * noise[:, position]).to(mean.dtype)
            latents.append(latent)
            means.append(mean)
            log_variances.append(log_variance)
        latents, means, log_variances = (torch.stack(steps, dim=1) for steps in (latents, means, log_variances))
        return latents, means, log_variances


def draw_noise(like: torch.Tensor, size: int, equations: str) -> torch.Tensor:
    """Draw ε (R, T, size) for the positions of `like` (R, T, …); the `released` equations clip it."""
    noise = torch.randn(*like.shape[:2], size, dtype=like.dtype, device=like.device)
    return noise.clamp_(-_LARGEST_NOISE, _LARGEST_NOISE) if equations == "released" else noise


def seeded_noise(like: torch.Tensor, size: int, equations: str, seed: int, seen: int) -> torch.Tensor:
    """As `draw_noise`, from position `seen` on, but equal for all rows and independent of other random numbers.

    Reordered beams therefore keep their past, and a document's summary does not depend on its batch.
    """
    positions = []
    for position in range(seen, seen + like.shape[1]):
        generator = torch.Generator().manual_seed((seed * 1_000_003 + position) % 2**63)
        positions.append(torch.randn(size, generator=generator, dtype=torch.float64, device="cpu"))
    noise = torch.stack(positions).to(like.device, like.dtype).expand(like.shape[0], -1, -1)
    return noise.clamp(-_LARGEST_NOISE, _LARGEST_NOISE) if equations == "released" else noise


def gaussian_kl(mean: torch.Tensor, log_variance: torch.Tensor) -> torch.Tensor:
    """KL divergence of N(μ, σ²) from N(0, I), summed over the latent variables: (…, L) -> (…), at least float32."""
    dtype = torch.promote_types(mean.dtype, torch.float32)
    mean, log_variance = mean.to(dtype), log_variance.to(dtype)
    return 0.5 * (mean.square() + log_variance.exp() - 1.0 - log_variance).sum(-1)


class GatedOutput(nn.Module):
    """The `released` output features: a gate between latent variables and state, then a layer of embedding width.

        z' = tanh(W z + b),  u = σ(W h + W z' + b),  d = u ⊙ h + (1 - u) ⊙ z',  tanh(W d + W y + W c + b)

    With a `latent_size` of 0, d is h.
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
        """y, h, c and z (R, T, …) -> the features that score words (R, T, width), and d (R, T, k)."""
        if self.latent_projection is not None:
            latent = torch.tanh(self.latent_projection(latent))
            gate = torch.sigmoid(self.gate(torch.cat((states, latent), dim=-1)))
            states = gate * states + (1 - gate) * latent
        return torch.tanh(self.projection(torch.cat((states, words, contexts), dim=-1))), states


class SummedOutput(nn.Module):
    """The `printed` output features: d = tanh(W z + W h + b). With a `latent_size` of 0, d is h."""

    def __init__(self, word_width: int, state_width: int, source_width: int, latent_size: int):
        super().__init__()
        self.projection = nn.Linear(latent_size + state_width, state_width) if latent_size else None
        self.width = state_width

    def forward(self, words, states, contexts, latent=None) -> tuple[torch.Tensor, torch.Tensor]:
        """y, h, c and z (R, T, …) -> the features that score words and d, both of which are d (R, T, k)."""
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
    # the decoder's own backward stores so little that there is nothing to recompute
    supports_gradient_checkpointing = False
    # their own computations mix what their modules return
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
                # the chunks below would lose the mark of a loaded weight
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
        words, width, latent = config.embedding_size, config.hidden_size, config.latent_size
        source = 2 * width
        released = config.equations == "released"
        self.embed_tokens = embed_tokens
        self.dropout = nn.Dropout(config.dropout)
        self.start = nn.Linear(source, width)
        attention = source if released else width
        self.states = AttentiveGrus(words, width, source, attention, released, config.reset_after)
        self.latent_chain = LatentChain(words, width, latent) if latent else None
        self.output = (GatedOutput if released else SummedOutput)(words, width, source, latent)
        self.copy_gate = nn.Linear(width + source + words, 1) if config.copy else None
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

        W is the width of the features that score words. Also returned are the copy distributions (R, T, S) and, with
        latent variables, their KL (R, T) and means (R, T, L). Training samples the variables, inference uses the means.

        Args:
            output_attentions: whether to return the attention also as cross_attentions, one layer with one head.
            latent_seed: if given, the latent variables are sampled outside training as well, with this seed.
            zero_latent: whether to replace the latent variables by zeros in the output layer's input.
        """
        check_prompts(attention_mask)
        inputs_embeds = self.embed(input_ids, inputs_embeds)
        words = self.dropout(self._drop_words(inputs_embeds))
        source, rows, length = cast(torch.Tensor, encoder_hidden_states), *words.shape[:2]
        mask = None if encoder_attention_mask is None else encoder_attention_mask.bool()
        if use_cache and cache is None:
            cache = make_decoder_cache([DecoderStateLayer()])
        layer = None if cache is None else cache.self_attention_cache.layers[0]
        start = layer.states if layer is not None and layer.states else self.start_states(source, mask, rows)
        keys = keys_once(self.states.key_projection, source, cache, layer_index=0)
        starts = start["first"], start["second"]
        states, recorded = self.states(words, source, keys, mask, *starts), None
        if output_attentions:
            recorded = states.attention[:, None]
            if torch.is_grad_enabled():
                # compute again from what is returned, whose gradient callers may read
                states = self.states(words, source, keys, mask, *starts, attention=recorded[:, 0])
        latents = means = kl = None
        if self.latent_chain is not None:
            noise, size, equations = None, self.config.latent_size, self.config.equations
            if latent_seed is not None:
                seen = 0 if layer is None else layer.seen_positions
                noise = seeded_noise(words, size, equations, latent_seed, seen)
            elif self.training:
                noise = draw_noise(words, size, equations)
            before = states.first
            if equations == "printed":
                before = torch.cat((start["first"][:, None].to(before.dtype), before[:, :-1]), dim=1)
            latents, means, log_variances = self.latent_chain(words, before, start["latent"], noise)
            kl = gaussian_kl(means, log_variances)
        read_latents = torch.zeros_like(latents) if latents is not None and zero_latent else latents
        features, combined = self.output(words, states.second, states.contexts, read_latents)
        coverage = summed_coverage(states.attention, attention_mask)
        if layer is not None:
            coverage = layer.accumulate("coverage", coverage)
            layer.states |= {"first": states.first[:, -1], "second": states.second[:, -1]}
            if latents is not None:
                layer.states["latent"] = latents[:, -1]
            layer.advance(length)
        gate_logits = None
        if self.copy_gate is not None:
            gate_logits = self.copy_gate(torch.cat((combined, states.contexts, words), dim=-1))[..., 0]
        return DrgdDecoderOutput(
            last_hidden_state=self.dropout(features),
            **cache_argument(cache),
            cross_attentions=None if recorded is None else (recorded,),
            copy_attentions=states.attention,
            coverage=coverage,
            copy_gate_logits=gate_logits,
            latent_kl=kl,
            latent_means=means,
        )

    def _drop_words(self, words: torch.Tensor) -> torch.Tensor:
        if not self.training or not self.config.word_dropout:
            return words
        # unscaled: the words that remain are the same as without dropout
        return words * (torch.rand(*words.shape[:2], 1, device=words.device) >= self.config.word_dropout)

    def start_states(self, source: torch.Tensor, mask: torch.Tensor | None, rows: int) -> dict[str, torch.Tensor]:
        """The states before the first position: tanh(W mean_j e_j + b) of each row's document (R, k), and z = 0."""
        # e is zero at padding
        tokens = source.shape[1] if mask is None else mask.sum(-1, keepdim=True).clamp(min=1)
        state = torch.tanh(self.start(source.sum(1) / tokens)).repeat_interleave(rows // source.shape[0], dim=0)
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
    both in `loss_parts`. Further settings of `generate()` are `sample_latent`, `latent_seed` and `replace_unk`.
    """

    output_class = DrgdOutput
    generation_keys = own_settings("drgd")

    def __init__(self, config: DrgdConfig):
        super().__init__(config)
        self.model = DrgdModel(config)
        self.lm_head = nn.Linear(self.model.decoder.output.width, config.vocab_size)
        if config.tie_output:
            self._tied_weights_keys = {"lm_head.weight": "model.shared.weight"}
        # updates made so far, for the KL's warm-up; None: the warm-up is over
        self._updates: int | None = None
        self.post_init()

    def set_update(self, updates: int) -> None:
        """Set the number of updates so far, which determines the warm-up of the KL's weight."""
        self._updates = updates

    @property
    def kl_weight(self) -> float:
        """The weight of the KL at this update."""
        warmup = self.config.kl_warmup_steps
        if self._updates is None or not warmup:
            return self.config.weight_of_kl
        return self.config.weight_of_kl * min(1.0, self._updates / warmup)

    def check_generation_keys(self, generation_config) -> None:
        """Raise a ValueError for a key that is out of range, or that needs latent variables which StanD lacks."""
        super().check_generation_keys(generation_config)
        if getattr(generation_config, "sample_latent", None) and not self.config.latent_size:
            raise ValueError("`sample_latent` is True, but a model with `latent_size=0` has no latent variables")

    def _prepare_generation_config(self, *args, **kwargs: Any):
        config, model_kwargs = super()._prepare_generation_config(*args, **kwargs)
        if config.replace_unk and (running := running_generation()) is not None:
            running.unknown_id = self._unknown_token_id()
        if config.sample_latent:
            seed = config.latent_seed
            # drawn from torch's generator by default: `set_seed` makes it repeatable
            self._add_step_input("latent_seed", int(torch.randint(2**31, (1,))) if seed is None else seed)
        return config, model_kwargs

    def _update_model_kwargs_for_generation(self, outputs, *args, **kwargs):
        updated = super()._update_model_kwargs_for_generation(outputs, *args, **kwargs)
        running = running_generation()
        if running is not None and running.unknown_id is not None:
            running.source = {name: updated.get(name) for name in ("encoder_outputs", "attention_mask")}
        return updated

    def _unknown_token_id(self) -> int:
        tokenizer = self._word_tokenizer()
        check_vocabulary(tokenizer, self.config.vocab_size)
        if tokenizer.unk_token_id is None:
            raise ValueError("`replace_unk` needs unknown words, but the tokenizer has no `unk_token`: set it to False")
        return tokenizer.unk_token_id

    @torch.no_grad()
    def _finished(self, sequences, running):
        """Replace the unknown words of generate()'s output if `replace_unk` is set."""
        sequences = super()._finished(sequences, running)
        unknown = running.unknown_id
        if unknown is None or not (sequences[:, 1:] == unknown).any():
            return sequences
        # recompute the attention in one pass: beams were reordered since their steps computed it
        written = self.model(decoder_input_ids=sequences[:, :-1], use_cache=False, **running.source)
        if written.source_ids is None:
            raise ValueError("`replace_unk` needs the source's words: give `input_ids`")
        special = [token for token in self._word_tokenizer().all_special_ids if token != unknown]
        source_ids = self.known_ids(written.source_ids)
        read = (value.numpy(force=True) for value in (sequences, written.copy_attentions.double(), source_ids))
        return torch.tensor(replace_unknown(*read, unknown, special), device=sequences.device)

    def _score(self, outputs, inputs, labels, num_items_in_batch, skip_logits) -> dict[str, Any]:
        scored = super()._score(outputs, inputs, labels, num_items_in_batch, skip_logits)
        if labels is None or outputs.latent_kl is None:
            return scored
        kl = mean_over_targets(outputs.latent_kl, labels, num_items_in_batch)
        # clamp each token's KL, not the batch's mean: the loss must not depend on the batch
        clamped = outputs.latent_kl.clamp(min=self.config.free_bits) if self.config.free_bits else outputs.latent_kl
        loss = scored["loss"] + self.kl_weight * mean_over_targets(clamped, labels, num_items_in_batch)
        return {**scored, "loss": loss, "loss_parts": {**scored["loss_parts"], "kl": kl.detach()}}


__all__ = ["DrgdForConditionalGeneration", "DrgdModel", "DrgdPreTrainedModel"]
