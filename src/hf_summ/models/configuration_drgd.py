"""Configuration of DRGD: the deep recurrent generative decoder."""

from huggingface_hub.dataclasses import strict

from .checks import Range
from .configuration_base import PROBABILITY, SIZE, SummarizationConfig

# the authors' program averages the NLL over documents, but the KL over steps and latent variables, and sums the KL over
# the batch; this is the weight of the KL in its run on LCSTS, with 300 documents a batch, 27 steps and 500 variables
_RELEASED_KL_WEIGHT = 300 / (27 * 500)


@strict
class DrgdConfig(SummarizationConfig):
    """Configuration of a DRGD model (Li et al. 2017); the defaults are the paper's for Gigaword.

    Args:
        vocab_size: size of the vocabulary shared by source and target.
        embedding_size: width of the word embeddings.
        hidden_size: width of the recurrent states, in each direction of the encoder.
        latent_size: number of latent variables per position; 0 gives the baseline StanD.
        equations: `released`, as in the authors' program, or `printed`, as in the paper.
        reset_after: whether the decoder's GRUs apply the reset gate after the product of state and weights, as torch
            does. Program and paper apply it before (docs/equations.md, section 4). A checkpoint without this key
            applies it after.
        copy: whether words are also copied from the source, by the decoder's own attention.
        kl_weight: weight of the KL divergence of the latent variables from their prior. The default is 1 for the
            `printed` equations, and .0222, as in the program's run on LCSTS, for the `released` equations.
        kl_warmup_steps: number of updates over which the weight rises from 0; the training loop must call the model's
            `set_update` before each update, as ours does.
        free_bits: KL of a target token, in nats, that adds nothing to the loss (Kingma et al. 2016); at most one per
            latent variable.
        word_dropout: share of the decoder's input words that training drops (Bowman et al. 2016).
        tie_output: whether the output layer shares the embedding matrix; in the paper it has its own.
        embedding_std: standard deviation of new embeddings; the program's value needs long training.
        dropout: dropout of the embeddings and of the output layer's input.
        label_smoothing: ε of the loss, at least 0 and below 1.
        use_cache, is_encoder_decoder, tie_word_embeddings: as in every transformers configuration.
        pad_token_id, bos_token_id, eos_token_id, decoder_start_token_id: ids of special tokens, as in every
            transformers configuration; the processor's `align` sets them. A summary starts with padding, whose
            embedding is zero.
        unk_token_id: id of unknown words; `align` sets it too.
        unknown_ids: number of ids from `vocab_size` on, which tell apart the words of a document that the vocabulary
            lacks, so that they can be copied; 0 for a vocabulary of subwords. `align` sets it too.
    """

    model_type = "drgd"
    attribute_map = {"d_model": "hidden_size"}
    keys_to_ignore_at_inference = SummarizationConfig.keys_to_ignore_at_inference + ["latent_kl", "latent_means"]

    rules = {
        **SummarizationConfig.rules,
        "embedding_size": SIZE,
        "hidden_size": SIZE,
        "latent_size": Range(0),
        "embedding_std": Range(0),
        "kl_weight": Range(0),
        "kl_warmup_steps": Range(0),
        "free_bits": Range(0),
        "word_dropout": PROBABILITY,
        "equations": ("released", "printed"),
    }
    values_before = {"reset_after": True}
    # the former name `variant` is also an argument of `from_pretrained`, so a key cannot have it
    renamed = {"variant": "equations"}

    vocab_size: int = 30000
    embedding_size: int = 300
    hidden_size: int = 500
    latent_size: int = 500
    equations: str = "released"
    reset_after: bool = False
    copy: bool = False
    tie_output: bool = False
    embedding_std: float | int = 0.01
    kl_weight: float | int | None = None
    kl_warmup_steps: int = 0
    free_bits: float | int = 0.0
    word_dropout: float | int = 0.0
    dropout: float | int = 0.0
    label_smoothing: float | int = 0.0
    decoder_start_token_id: int | None = 0

    @property
    def final_kl_weight(self) -> float:
        """The weight of the KL after its warm-up: `kl_weight`, or the default for the equations if it is None."""
        if self.kl_weight is not None:
            return float(self.kl_weight)
        if self.equations == "printed":
            return 1.0
        return _RELEASED_KL_WEIGHT

    def validate_free_bits(self):
        """Require `free_bits` to be at most one nat per latent variable."""
        if self.free_bits > self.latent_size:
            raise ValueError(f"`free_bits` is {self.free_bits}, but must be at most `latent_size` ({self.latent_size})")

    def validate_tie(self):
        """Require the input of a tied output layer to be as wide as the embeddings."""
        # the `released` output features always have the embeddings' width
        if self.tie_output and self.equations == "printed" and self.embedding_size != self.hidden_size:
            raise ValueError(
                '`tie_output` with `equations="printed"` needs an equal '
                f"`hidden_size` ({self.hidden_size}) and `embedding_size` ({self.embedding_size})"
            )


__all__ = ["DrgdConfig"]
