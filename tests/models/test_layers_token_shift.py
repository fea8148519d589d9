"""Token shift: the layer against a naive one, and what it changes in the models that have it."""

import pytest
import torch
from transformers import AutoModelForSeq2SeqLM

from hf_summ.models.layers_transformer import TokenShift
from tests.models.architectures import (
    COPY_TRANSFORMER,
    COPY_TRANSFORMER_BERT,
    HIGHLIGHT_TRANSFORMER,
    SAGCOPY,
    TINY_BERT,
)

ON_WORDS = [COPY_TRANSFORMER, HIGHLIGHT_TRANSFORMER, SAGCOPY]
ALL = [*ON_WORDS, COPY_TRANSFORMER_BERT]


def naive_shift(matrix, embeddings, mask):
    """P e(i−1), where e of padding is zero, one position at a time."""
    outputs = torch.zeros(*embeddings.shape[:2], len(matrix), dtype=embeddings.dtype)
    for row, position in mask.nonzero().tolist():
        if position + 1 < embeddings.shape[1]:
            outputs[row, position + 1] = matrix @ embeddings[row, position]
    return outputs


@pytest.mark.parametrize("d_model", [4, 6, 9])
def test_layer_equals_its_naive_twin(d_model):
    layer, embeddings = TokenShift(6, d_model).double(), torch.randn(4, 7, 6, dtype=torch.float64)
    matrix = layer.projection.weight
    # padded on the right, on the left, with holes, and whole
    mask = torch.tensor([[1, 1, 1, 1, 0, 0, 0], [0, 0, 0, 1, 1, 1, 1], [1, 0, 1, 1, 0, 0, 1], [1] * 7])
    expected = naive_shift(matrix, embeddings, mask)
    for given in (mask, mask.bool(), mask.double()):
        torch.testing.assert_close(layer(embeddings, given), expected)
    torch.testing.assert_close(layer(embeddings), naive_shift(matrix, embeddings, torch.ones(4, 7)))
    assert not layer(embeddings[:, :1]).any()


@pytest.mark.thorough
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("architecture", ALL, ids=lambda architecture: architecture.name)
def test_matrix_is_orthogonal_at_the_start(architecture, dtype, tmp_path):
    config = architecture.config(token_shift=True)
    fresh = AutoModelForSeq2SeqLM.from_config(config, dtype=dtype)
    # a checkpoint that was trained without it
    AutoModelForSeq2SeqLM.from_config(architecture.config(token_shift=False)).save_pretrained(tmp_path)
    loaded = AutoModelForSeq2SeqLM.from_pretrained(tmp_path, config=config, dtype=dtype)
    for model in (fresh, loaded):
        matrix = model.model.encoder.token_shift.projection.weight.detach()
        assert matrix.dtype == dtype
        width = min(matrix.shape)
        # BERT's embeddings are narrower than the model
        assert width == (8 if architecture is COPY_TRANSFORMER_BERT else 16)
        products = matrix.T.float() @ matrix.float()
        torch.testing.assert_close(products, torch.eye(width), rtol=0, atol=1e-5 if dtype == torch.float32 else 0.02)


@pytest.mark.parametrize("architecture", ON_WORDS, ids=lambda architecture: architecture.name)
def test_embeddings_are_shifted_like_their_words(architecture):
    encoder, inputs = architecture.model(token_shift=True).get_encoder(), architecture.inputs()
    expected = encoder(**inputs).last_hidden_state
    inputs["inputs_embeds"] = encoder.embed_tokens(inputs.pop("input_ids"))
    torch.testing.assert_close(encoder(**inputs).last_hidden_state, expected)


def test_padding_on_the_left_is_like_none():
    model, inputs = SAGCOPY.model(token_shift=True), SAGCOPY.inputs()
    # padding itself moves a document to other positions
    for layer in (model.model.encoder.input_layer, model.model.decoder.input_layer):
        layer.positions.table.weight.data[:] = layer.positions.table.weight[0]
    length, lengths = inputs["input_ids"].shape[1], inputs["attention_mask"].sum(-1).tolist()
    # padding whose embedding is not zero
    inputs["input_ids"] = inputs["input_ids"].masked_fill(inputs["attention_mask"] == 0, 5)
    left = {}
    for name, value in inputs.items():
        rows = [row.roll(length - size) for row, size in zip(value, lengths, strict=True)]
        left[name] = torch.stack(rows)
    written = {"decoder_input_ids": torch.tensor([[2, 7, 9]] * 3)}
    expected, found = model(**inputs, **written).logits, model(**left, **written).logits
    torch.testing.assert_close(found, expected)
    for row, size in enumerate(lengths):
        alone = model(input_ids=inputs["input_ids"][row : row + 1, :size], decoder_input_ids=torch.tensor([[2, 7, 9]]))
        torch.testing.assert_close(alone.logits[0], expected[row])


def test_words_may_be_narrower_than_their_bert():
    bert = {**TINY_BERT, "model_type": "electra", "embedding_size": 6}
    model = COPY_TRANSFORMER_BERT.model(bert_config=bert)
    assert model.model.encoder.token_shift.projection.weight.shape == (16, 6)
    assert model(**COPY_TRANSFORMER_BERT.inputs(), labels=COPY_TRANSFORMER_BERT.labels()).loss.isfinite()
