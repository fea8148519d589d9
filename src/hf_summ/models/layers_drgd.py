"""DRGD's layers: the latent chain, and outputs that combine it with the states (Li et al. 2017)."""

import torch
from torch import nn

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
        positions.append(torch.randn(size, generator=generator, dtype=torch.float64))
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
