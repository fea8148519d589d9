"""Configuration of DRGD: the deep recurrent generative decoder."""

from huggingface_hub.dataclasses import strict

from .checks import Range
from .configuration_base import PROBABILITY, SIZE, SummarizationConfig

# the program adds the NLL's mean over documents to the KL's mean over steps and variables, summed over the batch. the
# weight is that of its run on LCSTS: 300 documents a batch, 27 steps, 500 latent variables
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
        reset_after: whether the decoder's GRUs apply the reset gate after the product of state and weights, as in
            torch. Program and paper apply it before (docs/equations.md, section 4). Checkpoints without this key apply
            it after.
        copy: whether words are also copied from the source, by the decoder's own attention.
        kl_weight: weight of the KL divergence of the latent variables from their prior. By default 1 in
            the paper, .0222 in the program's run on LCSTS.
        kl_warmup_steps: number of updates over which the weight rises from 0; the training loop must call
            `set_update`, as ours does.
        free_bits: KL of a target token, in nats, that adds nothing to the loss (Kingma et al. 2016); at most one per
            latent variable.
        word_dropout: share of the decoder's input words that training drops (Bowman et al. 2016).
        tie_output: whether the output layer shares the embedding matrix; in the paper it has its own.
        embedding_std: standard deviation of new embeddings; the program's value needs long training.
        dropout: dropout of the embeddings and of the output layer's input.
        label_smoothing: ε of the loss, at least 0 and below 1.
        use_cache, is_encoder_decoder, tie_word_embeddings: as in every transformers configuration.
        pad_token_id, bos_token_id, eos_token_id, decoder_start_token_id: likewise; set by the processor's `align`. A
            summary starts with padding, whose embedding is zero.
        unk_token_id, unknown_ids: the id of unknown words, and the number of ids from `vocab_size` on that tell words
            apart that the vocabulary lacks, for copying; 0 for subwords. Likewise set by `align`.
    """

    model_type = "drgd"
    attribute_map = {"d_model": "hidden_size"}
    keys_to_ignore_at_inference = [*SummarizationConfig.keys_to_ignore_at_inference, "latent_kl", "latent_means"]

    rules = {
        **SummarizationConfig.rules,
        **dict.fromkeys(("embedding_size", "hidden_size"), SIZE),
        **dict.fromkeys(("latent_size", "embedding_std", "kl_weight", "kl_warmup_steps", "free_bits"), Range(0)),
        "word_dropout": PROBABILITY,
        "equations": ("released", "printed"),
    }
    values_before = {"reset_after": True}
    # `variant` is an argument of `from_pretrained`
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
    def weight_of_kl(self) -> float:
        """`kl_weight`, or that of the equations."""
        if self.kl_weight is None:
            return 1.0 if self.equations == "printed" else _RELEASED_KL_WEIGHT
        return float(self.kl_weight)

    def validate_free_bits(self):
        """Require no more free bits than latent variables."""
        if self.free_bits > self.latent_size:
            raise ValueError(f"`free_bits` is {self.free_bits}, but must be at most `latent_size` ({self.latent_size})")

    def validate_tie(self):
        """Require a tied output layer's input to be as wide as the embeddings."""
        if self.tie_output and self.equations == "printed" and self.embedding_size != self.hidden_size:
            sizes = f"{self.hidden_size}) and `embedding_size` ({self.embedding_size}"
            raise ValueError(f'`tie_output` with `equations="printed"` needs an equal `hidden_size` ({sizes})')


__all__ = ["DrgdConfig"]
