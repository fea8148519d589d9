"""CopyTransformer against a naive implementation of the thesis's equations, and its switches."""

import math

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForSeq2SeqLM, BertModel, DynamicCache, EncoderDecoderCache

from benchmarks.measuring import peak_mebibytes
from tests.conftest import first
from tests.models.architectures import (
    COPY_TRANSFORMER,
    COPY_TRANSFORMER_BERT,
    HIGHLIGHT_TRANSFORMER,
    ON_BERT,
    TINY_BERT,
    VOCAB_SIZE,
)
from tests.models.naive import NaiveModel, assert_equals_naive, naive_windowed_attention, naive_windows
from tests.models.pretrained import build


class NaiveCopyTransformer(NaiveModel):
    """docs/equations.md, section 2, over a model's named weights."""

    def convolutional_attention(self, name, h):
        config, kind = self.config, self.config.convolutional_attention
        heads = (states.transpose(0, 1)[None] for states in self.heads(name, h, h))
        reach = 1 if kind == "1d" else config.head_window_size
        (outputs,) = naive_windowed_attention(*heads, config.window_size, reach, kind == "2d_circular")
        return self.linear(f"{name}.out_proj", outputs.transpose(0, 1).flatten(1))

    def encoder_layer(self, index, h):
        name = f"model.encoder.layers.{index}"
        is_convolutional = self.config.convolutional_attention != "none" and index < self.config.convolutional_layers

        def attend(read):
            if is_convolutional:
                return self.convolutional_attention(f"{name}.self_attention", read)
            return self.attention(f"{name}.self_attention", read, read)[0]

        return self.layer(name, h, attend)

    def bert_states(self, input_ids):
        config, bert = self.config, self.model.model.encoder.bert.bert
        sizes = config.bert_window_size, config.bert_window_stride, config.bert_layers
        (states,) = naive_windows(bert, input_ids[None], torch.ones(1, len(input_ids)).int(), *sizes)
        return states if config.train_bert else states.detach()

    def bert_words(self):
        if self.config.encoder_type == "transformer":
            return self.weights["model.decoder.embed_tokens.words.weight"]
        return self.weights["model.encoder.bert.bert.embeddings.word_embeddings.weight"]

    def bert_module(self, ids):
        """BERT's words, positions and first type, then its LayerNorm; nothing of the Transformer's own input."""
        is_only_in_decoder = self.config.encoder_type == "transformer"
        name = "model.decoder.input_layer" if is_only_in_decoder else "model.encoder.bert.bert"
        positions = self.weights[f"{name}.embeddings.position_embeddings.weight"]
        types = self.weights[f"{name}.embeddings.token_type_embeddings.weight"]
        scale = self.weights[f"{name}.embeddings.LayerNorm.weight"]
        shift = self.weights[f"{name}.embeddings.LayerNorm.bias"]
        h = self.bert_words()[ids] + positions[: len(ids)] + types[0]
        centered = h - h.mean(-1, keepdim=True)
        return scale * centered / (centered.square().mean(-1, keepdim=True) + 1e-12).sqrt() + shift

    def embed(self, words):
        return math.sqrt(self.config.d_model) * words + self.sinusoid(len(words))

    def encode(self, input_ids):
        config, layers = self.config, range(self.config.encoder_layers)
        if config.encoder_type == "transformer":
            h = self.embed(self.source_words(input_ids))
        else:
            states, side = [self.bert_states(input_ids)], None
            if config.side_layers:
                side = self.embed(self.weights["model.shared.weight"][input_ids])
                for index in layers[: config.side_layers]:
                    side = self.encoder_layer(index, side)
                states.append(side)
            h = self.linear("model.encoder.reduction", torch.cat(states, dim=-1))
            h = h.clamp(min=0) if config.bert_reduction == "relu" else h
            if config.token_shift:
                words = self.model.get_encoder().bert.bert.embeddings.word_embeddings.weight[input_ids]
                centered = words - words.mean(-1, keepdim=True)
                h = h + self.shifted(centered / (centered.square().mean(-1, keepdim=True) + 1e-5).sqrt())
        if config.encoder_type == "bert":
            return h
        for index in layers[config.side_layers :]:
            h = self.encoder_layer(index, h)
        return self.top("model.encoder", h)

    def decoder_words(self, reduced):
        return reduced.clamp(min=0) if self.config.decoder_reduction == "relu" else reduced

    def log_probs(self, decoder_input_ids, input_ids):
        config, source = self.config, self.encode(input_ids)
        if config.decoder_embedding == "bert":
            words = self.bert_words()[decoder_input_ids]
            h = self.embed(self.decoder_words(self.linear("model.decoder.embed_tokens.reduction", words)))
        elif config.decoder_embedding == "bert_module":
            h = self.linear("model.decoder.input_layer.reduction", self.bert_module(decoder_input_ids))
            h = self.decoder_words(h)
        else:
            h = self.embed(self.weights["model.shared.weight"][decoder_input_ids])
        for index in range(config.decoder_layers):
            h, _, weights = self.decoder_layer(f"model.decoder.layers.{index}", h, source)
        h = self.top("model.decoder", h)
        if config.output_embedding == "bert":
            words = self.bert_words() @ self.weights["output_map.weight"]
            generated = (h @ words.T + self.weights["lm_head.bias"]).softmax(-1)
        else:
            generated = self.linear("lm_head", h).softmax(-1)
        if not config.copy:
            return generated.log()
        if config.copy_attention == "separate":
            name = "model.decoder.copy_attention"
            q, k = self.linear(f"{name}.q_proj", h), self.linear(f"{name}.k_proj", source)
            weights = (q @ k.T / math.sqrt(config.d_model)).softmax(-1)
        else:
            weights = weights[0] if config.copy_attention == "first_head" else weights.mean(0)
        gate = self.linear("copy_gate", h).sigmoid()
        return self.mixture(generated, gate, weights, input_ids)


PLAIN = {"convolutional_attention": "none"}
ON_PLAIN_BERT = {**ON_BERT, **PLAIN}
TRAINED_BERT = {**ON_PLAIN_BERT, "train_bert": True}
BERT_ALONE = {**ON_PLAIN_BERT, "encoder_type": "bert"}
BERT_IN_DECODER = {**PLAIN, "decoder_embedding": "bert", "bert_config": TINY_BERT}
VARIANTS = {
    "first head": PLAIN,
    "mean of the heads": {**PLAIN, "copy_attention": "mean"},
    "copy attention of its own": {**PLAIN, "copy_attention": "separate"},
    "smoothed": {**PLAIN, "label_smoothing": 0.1},
    "Transformer": {**PLAIN, "copy": False},
    "post-norm": {**PLAIN, "norm": "post"},
    "post-norm, 1d, separate": {"convolutional_attention": "1d", "norm": "post", "copy_attention": "separate"},
    "1d": {"convolutional_attention": "1d"},
    "2d": {"convolutional_attention": "2d"},
    "2d circular": {"convolutional_attention": "2d_circular", "convolutional_layers": 2, "window_size": 3},
    "BERT alone": {**BERT_ALONE, "copy": False},
    "BERT with ReLU": {**BERT_ALONE, "bert_reduction": "relu"},
    "BERT in both": {**ON_PLAIN_BERT, "decoder_embedding": "bert"},
    "trained BERT": {**TRAINED_BERT, "decoder_embedding": "bert"},
    "stacking": {**ON_BERT, "convolutional_attention": "2d"},
    "post-norm concatenation": {**ON_BERT, "convolutional_attention": "2d", "side_layers": 1, "norm": "post"},
    "concatenation": {**ON_BERT, "convolutional_attention": "2d", "side_layers": 1},
    "plain concatenation": {**ON_PLAIN_BERT, "side_layers": 1, "decoder_embedding": "bert"},
    "token shift": {**PLAIN, "token_shift": True},
    "token shift on BERT": {**BERT_ALONE, "token_shift": True},
    "token shift on trained BERT": {**TRAINED_BERT, "bert_reduction": "relu", "side_layers": 1, "token_shift": True},
    "BERT in the decoder": BERT_IN_DECODER,
    "BERT in the decoder with ReLU": {**BERT_IN_DECODER, "decoder_reduction": "relu"},
    "BERT's module in the decoder": {**BERT_IN_DECODER, "decoder_embedding": "bert_module"},
    "BERT's module with ReLU": {**BERT_IN_DECODER, "decoder_embedding": "bert_module", "decoder_reduction": "relu"},
    "BERT's module in both": {**ON_PLAIN_BERT, "decoder_embedding": "bert_module", "bert_layers": 2},
    "trained module in both": {**TRAINED_BERT, "decoder_embedding": "bert_module", "bert_layers": 1},
    "BERT's words in the output": {**BERT_ALONE, "output_embedding": "bert"},
    "trained words in the output": {**TRAINED_BERT, "output_embedding": "bert"},
    "BERT in decoder and output, no copying": {**BERT_IN_DECODER, "output_embedding": "bert", "copy": False},
    "trained words in decoder and output": {**BERT_IN_DECODER, "output_embedding": "bert", "train_bert": True},
}


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("is_training", first([True, False]), ids=["in chunks", "all logits"])
def test_loss_and_gradients_equal_the_naive_reading(variant, is_training):
    model = COPY_TRANSFORMER.model(**VARIANTS[variant])
    # training computes the loss without the logits
    model.train(is_training)
    assert_equals_naive(model, NaiveCopyTransformer(model), COPY_TRANSFORMER.inputs(), COPY_TRANSFORMER.labels())


CASES_OF_INITIALIZATIONS = [
    # Glorot and Bengio 2010, equation 16, of V + d units
    ({}, math.sqrt(6 / 2064), math.sqrt(2 / 2064)),
    ({"embedding_init": "normal"}, math.inf, 1 / 8),
]


@pytest.mark.parametrize("architecture", [COPY_TRANSFORMER, HIGHLIGHT_TRANSFORMER], ids=str)
@pytest.mark.parametrize(("settings", "bound", "deviation"), CASES_OF_INITIALIZATIONS)
def test_new_embeddings_are_drawn_as_the_config_says(architecture, settings, bound, deviation):
    torch.manual_seed(0)
    model = architecture.head_class(architecture.config(vocab_size=2000, d_model=64, **settings))
    weights = model.get_input_embeddings().weight.detach()
    assert not weights[model.config.pad_token_id].any()
    assert weights.abs().max() <= bound
    assert weights.std().item() == pytest.approx(deviation, rel=0.02)


@pytest.mark.thorough
@pytest.mark.parametrize("decoder_embedding", ["trained", "bert", "bert_module"])
@pytest.mark.parametrize("encoder_type", ["transformer", "bert", "bert_transformer"])
def test_fresh_model_has_the_weights_of_the_named_bert(encoder_type, decoder_embedding, bert_folder):
    settings = {"encoder_type": encoder_type, "decoder_embedding": decoder_embedding, "bert_window_size": 8}
    model = build(**settings, bert_name=str(bert_folder), bert_window_stride=4, convolutional_attention="none").eval()
    bert = BertModel.from_pretrained(bert_folder)
    if encoder_type != "transformer":
        for name, value in model.model.encoder.bert.bert.state_dict().items():
            torch.testing.assert_close(value, bert.state_dict()[name], rtol=0, atol=0)
    if decoder_embedding == "bert_module":
        for name, value in model.model.decoder.input_layer.embeddings.state_dict().items():
            torch.testing.assert_close(value, bert.embeddings.state_dict()[name], rtol=0, atol=0)
    if decoder_embedding != "trained":
        words = model.model.decoder.embed_tokens.words.weight
        torch.testing.assert_close(words, bert.embeddings.word_embeddings.weight, rtol=0, atol=0)
        # one matrix for both sides
        if encoder_type != "transformer":
            assert words is model.model.encoder.bert.bert.embeddings.word_embeddings.weight
    assert model(**COPY_TRANSFORMER.inputs(), labels=COPY_TRANSFORMER.labels()).loss.isfinite()


def bert_parameters(model):
    """The parameters that come from BERT, by name."""
    parts = (
        "model.encoder.bert.",
        "model.decoder.embed_tokens.words.",
        "model.decoder.input_layer.embeddings.",
        "masked_lm.",
    )
    return {name: value for name, value in model.named_parameters() if name.startswith(parts)}


def is_dropping(model):
    """Whether any dropout of BERT's is active."""
    return any(part.training for part in model.model.encoder.bert.modules())


@pytest.mark.thorough
@pytest.mark.parametrize("decoder_embedding", ["bert", "bert_module"])
@pytest.mark.parametrize("encoder_type", ["transformer", "bert_transformer"])
def test_frozen_bert_stays_as_it_is(encoder_type, decoder_embedding, bert_folder, tmp_path):
    settings = {"encoder_type": encoder_type, "decoder_embedding": decoder_embedding, "bert_name": str(bert_folder)}
    model = build(**{**ON_BERT, **settings})
    model.save_pretrained(tmp_path / "saved")
    # the checkpoint is whole: it needs no BERT beside it
    for path in bert_folder.iterdir():
        path.unlink()
    loaded = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "saved")
    for candidate in (model, loaded):
        candidate.train()
        before = {name: value.clone() for name, value in bert_parameters(candidate).items()}
        assert before
        assert not any(value.requires_grad for value in bert_parameters(candidate).values())
        assert encoder_type == "transformer" or not is_dropping(candidate)
        optimizer = torch.optim.SGD(candidate.parameters(), lr=1.0)
        candidate(**COPY_TRANSFORMER.inputs(), labels=COPY_TRANSFORMER.labels()).loss.backward()
        optimizer.step()
        for name, value in bert_parameters(candidate).items():
            torch.testing.assert_close(value, before[name], rtol=0, atol=0)
    for name, value in bert_parameters(loaded).items():
        torch.testing.assert_close(value, bert_parameters(model)[name], rtol=0, atol=0)


@pytest.mark.thorough
def test_frozen_parts_stay_frozen_when_all_else_is_unfrozen(conditioned):
    words = COPY_TRANSFORMER.model(**VARIANTS["BERT in the decoder"])
    for model in (conditioned, COPY_TRANSFORMER_BERT.model(), words):
        model.requires_grad_(True)
        model.train()
        assert bert_parameters(model)
        assert not any(value.requires_grad for value in bert_parameters(model).values())


@pytest.mark.thorough
@pytest.mark.parametrize("variant", ["BERT's words in the output", "BERT in decoder and output, no copying"])
def test_words_in_the_output_are_stored_once_and_frozen(variant, bert_folder, tmp_path):
    model = build(**VARIANTS[variant] | {"bert_name": str(bert_folder)})
    model.save_pretrained(tmp_path / "saved")
    stored = load_file(tmp_path / "saved" / "model.safetensors")
    assert [value.shape for value in stored.values()].count((VOCAB_SIZE, TINY_BERT["hidden_size"])) == 1
    expected = BertModel.from_pretrained(bert_folder).embeddings.word_embeddings.weight
    for candidate in (model, AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "saved")):
        candidate.requires_grad_(True)
        candidate.train()
        torch.testing.assert_close(candidate.lm_head.weight, expected, rtol=0, atol=0)
        (name,) = [name for name, value in candidate.named_parameters() if value is candidate.lm_head.weight]
        assert name in bert_parameters(candidate)
        assert not candidate.lm_head.weight.requires_grad


def test_asking_the_model_for_hidden_states_changes_nothing():
    model, inputs = COPY_TRANSFORMER_BERT.model(), COPY_TRANSFORMER_BERT.inputs()
    labels = COPY_TRANSFORMER_BERT.labels()
    expected = model(**inputs, labels=labels).logits
    # transformers' hooks, which BERT has by now, are put in again with those of the model around it
    assert len(model(**inputs, labels=labels, output_hidden_states=True).encoder_hidden_states) >= 2
    torch.testing.assert_close(model(**inputs, labels=labels).logits, expected)


def test_trainable_bert_learns(bert_folder):
    model = build(**ON_BERT, decoder_embedding="bert", bert_name=str(bert_folder), train_bert=True).train()
    assert is_dropping(model)
    model(**COPY_TRANSFORMER.inputs(), labels=COPY_TRANSFORMER.labels()).loss.backward()
    still = [name for name, value in bert_parameters(model).items() if value.grad is None]
    assert not still


@pytest.mark.parametrize("architecture", [COPY_TRANSFORMER, COPY_TRANSFORMER_BERT], ids=lambda a: a.name)
def test_logits_are_normalised_and_skipped_in_training(architecture):
    model, inputs, labels = architecture.model(), architecture.inputs(), architecture.labels()
    outputs = model(**inputs, labels=labels)
    torch.testing.assert_close(outputs.logits.exp().sum(-1), torch.ones(3, 6, dtype=torch.float64))
    assert outputs.copy_attentions.shape == (3, 6, 11)
    assert outputs.copy_gates.shape == (3, 6)
    torch.testing.assert_close(outputs.coverage, outputs.copy_attentions.sum(1))
    model.train()
    assert model(**inputs, labels=labels).logits is None
    kept = model(**inputs, labels=labels, skip_logits=False)
    torch.testing.assert_close(kept.logits, outputs.logits)
    torch.testing.assert_close(model(**inputs, labels=labels).loss, kept.loss)


def test_adapter_on_the_output_layer_takes_part_in_the_loss():
    from peft import LoraConfig, get_peft_model

    model = COPY_TRANSFORMER.model()
    settings = LoraConfig(task_type="SEQ_2_SEQ_LM", r=2, target_modules=["lm_head"], init_lora_weights=False)
    adapted = get_peft_model(model, settings).train()
    adapted(**COPY_TRANSFORMER.inputs(), labels=COPY_TRANSFORMER.labels()).loss.backward()
    trained = [value for value in adapted.parameters() if value.requires_grad]
    assert all(value.grad is not None and value.grad.any() for value in trained)


def test_encoder_output_without_source_ids_takes_them_from_the_inputs():
    model, inputs, labels = COPY_TRANSFORMER.model(), COPY_TRANSFORMER.inputs(), COPY_TRANSFORMER.labels()
    expected = model(**inputs, labels=labels).loss
    states = model.get_encoder()(**inputs).last_hidden_state
    torch.testing.assert_close(model(**inputs, encoder_outputs=(states,), labels=labels).loss, expected)
    mask = inputs["attention_mask"]
    with pytest.raises(ValueError, match="copying needs the source's subwords"):
        model(attention_mask=mask, encoder_outputs=(states,), labels=labels)


# the latter is the name before transformers 5.24
@pytest.mark.parametrize("name", ["cache", "past_key_values"])
def test_cache_of_another_model_is_refused(name):
    model, cache = COPY_TRANSFORMER.model(), EncoderDecoderCache(DynamicCache(), DynamicCache())
    cache.self_attention_cache.update(torch.zeros(3, 4, 0, 4), torch.zeros(3, 4, 0, 4), 0)
    with pytest.raises(ValueError, match="`cache` is not from this model"):
        model(**COPY_TRANSFORMER.inputs(), decoder_input_ids=torch.tensor([[1]] * 3), **{name: cache})


@pytest.mark.parametrize("architecture", [COPY_TRANSFORMER, COPY_TRANSFORMER_BERT], ids=lambda a: a.name)
def test_documents_without_a_token(architecture):
    model, inputs = architecture.model(), architecture.inputs()
    inputs["attention_mask"] = torch.zeros_like(inputs["attention_mask"])
    assert model(**inputs, labels=architecture.labels()).loss.isfinite()
    assert model.generate(**inputs, max_new_tokens=2).shape[0] == 3


def test_bert_refuses_padding_on_the_left_and_embeddings():
    model, inputs = COPY_TRANSFORMER_BERT.model(), COPY_TRANSFORMER_BERT.inputs()
    expected = model(**inputs, labels=COPY_TRANSFORMER_BERT.labels()).loss
    as_floats = {**inputs, "attention_mask": inputs["attention_mask"].double()}
    torch.testing.assert_close(model(**as_floats, labels=COPY_TRANSFORMER_BERT.labels()).loss, expected)
    with pytest.raises(ValueError, match="pad documents on the right"):
        model(**{name: value.flip(1) for name, value in inputs.items()}, labels=COPY_TRANSFORMER_BERT.labels())
    with pytest.raises(ValueError, match="give `input_ids`"):
        model(inputs_embeds=torch.zeros(1, 3, 16, dtype=torch.float64), decoder_input_ids=torch.tensor([[1]]))


@pytest.mark.thorough
def test_vocabulary_of_bert_cannot_be_resized(conditioned):
    for model in (COPY_TRANSFORMER_BERT.model(), conditioned):
        with pytest.raises(ValueError, match="cannot be resized to 44"):
            model.resize_token_embeddings(44)
        assert model.get_input_embeddings().weight.shape[0] == model.lm_head.weight.shape[0] == VOCAB_SIZE
        # what scripts do with any tokenizer
        assert model.resize_token_embeddings(VOCAB_SIZE) is model.get_input_embeddings()


@pytest.mark.parametrize("variant", ["copy attention of its own", "stacking", "concatenation", "BERT in both"])
def test_input_embeddings_can_be_replaced(variant):
    model = COPY_TRANSFORMER.model(**VARIANTS[variant])
    names = set(model.state_dict())
    new = torch.nn.Embedding(*model.get_input_embeddings().weight.shape).double()
    model.set_input_embeddings(new)
    assert model.get_input_embeddings() is new
    assert set(model.state_dict()) == names
    assert model(**COPY_TRANSFORMER.inputs(), labels=COPY_TRANSFORMER.labels()).loss.isfinite()


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["none", "2d"])
def test_memory_of_the_encoder_is_linear_in_the_length(kind):
    encoder = COPY_TRANSFORMER.model(convolutional_attention=kind).get_encoder().float()

    def peak(length):
        ids, mask = torch.randint(4, VOCAB_SIZE, (2, length)), torch.ones(2, length, dtype=torch.long)
        mask[1, length // 2 :] = 0
        with torch.no_grad():
            return peak_mebibytes(lambda: encoder(input_ids=ids, attention_mask=mask))

    assert 0 < peak(4000) < 4.5 * peak(1000)
