"""Configuration of SAGCopy: copying guided by the centrality of words in self-attention."""

from huggingface_hub.dataclasses import strict

from .checks import NOT_NEGATIVE, Range
from .configuration_base import SIZE, SummarizationConfig


@strict
class SagCopyConfig(SummarizationConfig):
    """Configuration of a SAGCopy model (Xu et al. 2020); the defaults are the paper's, with the network of MASS base.

    Args:
        vocab_size: size of the vocabulary shared by source and target.
        d_model: width.
        encoder_layers, decoder_layers: numbers of layers.
        num_heads: number of heads of every attention.
        ffn_dim: inner width of the feed-forward networks.
        copy: whether words are also copied from the source; without it, `centrality` must be `none`.
        centrality: centrality of source words, which guides copying: `outdegree` (equation 16), or `indegree-1` to
            `indegree-3` with that many rounds (equations 13 to 15); `none` is the paper's MASS+Copy.
        centrality_damping: weight of the new values in each round after the first, from 0 to 1: 1 as printed, 0.85 in
            the authors' program.
        guidance_weight: λ, the loss's weight of the divergence of copying from centrality (equation 18).
        guidance_sum: whether a document's divergence counts once per token (`tokens`, equation 18) or once
            (`documents`, as in the authors' program).
        token_shift: whether the encoder adds a linear map of each word's embedding to the next position, with which
            copying is learned sooner; ours, no paper's.
        positions: `learned`, at most `max_positions`, or `sinusoids`.
        max_positions: number of learned positions, which limits documents and summaries.
        embedding_norm: whether the sum of words and positions is normalized.
        scale_embedding: whether word embeddings are multiplied by √`d_model`.
        activation: of the feed-forward networks, a name from transformers' `ACT2FN`.
        output_bias: whether the output layer, which is tied to the embedding, has a bias.
        norm: `pre` normalizes the input of each sub-layer, `post` the sum of its input and output.
        start_name: BART checkpoint from which a new model takes network and weights; a folder or a Hub name. It sets
            the keys from `vocab_size` to `ffn_dim` and from `positions` to `norm`.
        dropout: dropout of embeddings and sub-layers.
        attention_dropout, activation_dropout: dropout of attention weights, and inside the feed-forward networks.
        label_smoothing: ε of the loss, at least 0 and below 1.
        use_cache, is_encoder_decoder, tie_word_embeddings: as in every transformers configuration.
        pad_token_id, bos_token_id, eos_token_id, decoder_start_token_id: ids of special tokens, as in every
            transformers configuration; the processor's `align` sets them.
        unk_token_id: id of unknown words; `align` sets it too.
        unknown_ids: number of ids from `vocab_size` on, which tell apart the words of a document that the vocabulary
            lacks, so that they can be copied; 0 for a vocabulary of subwords. `align` sets it too.
    """

    model_type = "sagcopy"
    keys_to_ignore_at_inference = SummarizationConfig.keys_to_ignore_at_inference + ["centrality"]

    rules = {
        **SummarizationConfig.rules,
        "centrality": ("none", "outdegree", "indegree-1", "indegree-2", "indegree-3"),
        "centrality_damping": Range(0, 1),
        "guidance_weight": NOT_NEGATIVE,
        "guidance_sum": ("tokens", "documents"),
        "positions": ("learned", "sinusoids"),
        "max_positions": SIZE,
    }

    vocab_size: int = 30522
    d_model: int = 768
    encoder_layers: int = 6
    decoder_layers: int = 6
    num_heads: int = 12
    ffn_dim: int = 3072
    copy: bool = True
    centrality: str = "indegree-1"
    centrality_damping: float | int = 1.0
    guidance_weight: float | int = 1.0
    guidance_sum: str = "tokens"
    token_shift: bool = False
    positions: str = "learned"
    max_positions: int = 512
    embedding_norm: bool = True
    scale_embedding: bool = True
    activation: str = "gelu"
    output_bias: bool = False
    norm: str = "post"
    start_name: str | None = None
    dropout: float | int = 0.1
    attention_dropout: float | int = 0.1
    activation_dropout: float | int = 0.1
    label_smoothing: float | int = 0.1
    bos_token_id: int | None = 101
    eos_token_id: int | list[int] | None = 102
    decoder_start_token_id: int | None = 102

    @property
    def copy_attention(self) -> str:
        """The attention to copy from: the mean over the heads of the last layer's cross-attention (section 4.1)."""
        return "mean"

    @property
    def is_guided(self) -> bool:
        """Whether copying is guided by centrality."""
        return self.centrality != "none"

    @property
    def max_position_embeddings(self) -> int | None:
        """The largest number of positions of a text, under transformers' name; None if there is no limit."""
        if self.positions == "learned":
            return self.max_positions
        return None

    def validate_activation(self):
        """Require the name of an activation function of transformers."""
        # this import takes longer than all other imports of this file together
        from transformers.activations import ACT2FN

        if self.activation not in ACT2FN:
            raise ValueError(f"`activation` is {self.activation!r}, but must be one of {', '.join(ACT2FN)}")

    def validate_guidance(self):
        """Require a model that copies if centrality guides copying."""
        if self.is_guided and not self.copy:
            raise ValueError(f'`centrality="{self.centrality}"` needs `copy`: for the plain MASS, set it to "none"')


__all__ = ["SagCopyConfig"]
