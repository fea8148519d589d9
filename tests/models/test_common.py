"""The tests that every architecture passes: saving, decoding, training and adapting as transformers' users expect."""

import inspect
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import (
    AutoConfig,
    AutoModelForSeq2SeqLM,
    AutoProcessor,
    DataCollatorForSeq2Seq,
    GenerationConfig,
    Seq2SeqTrainer,
    Seq2SeqTrainingArguments,
    pipeline,
)
from transformers.dynamic_module_utils import get_relative_import_files

from hf_summ import SummarizationCollator
from hf_summ.models.checks import ADDED_SETTINGS
from hf_summ.models.configuration_base import SummarizationConfig
from hf_summ.models.layers_copying import project_to_words
from hf_summ.models.layers_transformer import source_padding_mask
from tests.conftest import SENTENCES, first, save
from tests.models.architectures import EACH_BY_ONE, VOCAB_SIZE, build_with_processor, generate

DECODINGS = {
    "greedy": {"num_beams": 1},
    "sampling": {"do_sample": True, "num_beams": 1, "top_k": 0},
    "several beams": {"num_beams": 4, "num_return_sequences": 3},
    "decoder prompt": {"num_beams": 3, "decoder_input_ids": torch.tensor([[1, 7, 9]] * 3)},
    "several samples": {"do_sample": True, "num_return_sequences": 3},
    "beams": {"num_beams": 4},
    "sampled beams": {"num_beams": 3, "do_sample": True},
    "blocked beams": {"num_beams": 4, "no_repeat_ngram_size": 2, "length_penalty": 2.0},
    "GNMT penalty": {"num_beams": 4, "gnmt_length_penalty": 0.9, "early_stopping": "never"},
}


def trainable(model) -> list[tuple[str, torch.nn.Parameter]]:
    """Parameters that are not intentionally frozen."""
    return [(name, value) for name, value in model.named_parameters() if value.requires_grad]


def training_rows(processor) -> list[dict]:
    """The sentences with their beginnings as summaries, encoded, a row an example."""
    encoded = processor(text=SENTENCES, text_target=[sentence[:20] for sentence in SENTENCES])
    rows = []
    for row in range(len(SENTENCES)):
        rows.append({name: values[row] for name, values in encoded.items()})
    return rows


def assert_same_texts(first: torch.Tensor, second: torch.Tensor, end_token_id: int) -> None:
    """Equal but for padding: a row that ended earlier is padded with the end token by beams, and with pad alone."""
    longest = max(first.shape[1], second.shape[1])

    def ended(row: list[int]) -> list[int]:
        """The row up to its end token, or else padded to the longest row."""
        if end_token_id in row:
            return row[: row.index(end_token_id) + 1]
        return row + [0] * (longest - len(row))

    for first_row, second_row in zip(first.tolist(), second.tolist(), strict=True):
        assert ended(first_row) == ended(second_row)


def test_saved_and_loaded_model_computes_the_same(architecture, tmp_path):
    model, inputs, labels = architecture.model(), architecture.inputs(), architecture.labels()
    model.generation_config = GenerationConfig.from_dict(
        {**model.generation_config.to_dict(), "num_beams": 3, "no_repeat_word_ngram_size": 3, "min_new_words": 2}
    )
    model.save_pretrained(tmp_path)
    loaded = AutoModelForSeq2SeqLM.from_pretrained(tmp_path, dtype=torch.float64)
    assert type(loaded) is architecture.head_class
    expected, actual = model(**inputs, labels=labels), loaded(**inputs, labels=labels)
    torch.testing.assert_close(actual.logits, expected.logits, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(actual.loss, expected.loss, rtol=1e-12, atol=1e-12)
    assert loaded.generation_config.no_repeat_word_ngram_size == 3
    assert loaded.generation_config.min_new_words == 2
    expected = {**model.config.to_dict(), "_name_or_path": str(tmp_path)}
    if "bert_config" in architecture.settings:
        # loading sets the precision of nested configurations too
        expected["bert_config"]["dtype"] = "float64"
    assert loaded.config.to_dict() == expected
    assert not any(path.suffix in (".bin", ".pt", ".pkl") for path in tmp_path.iterdir())


def test_modules_of_the_words_share_one_weight(architecture, tmp_path):
    fresh = architecture.model()
    fresh.save_pretrained(tmp_path)
    for model in (fresh, AutoModelForSeq2SeqLM.from_pretrained(tmp_path)):
        size = (VOCAB_SIZE, architecture.word_width)
        words = [part for part in model.modules() if isinstance(part, torch.nn.Embedding) and part.weight.shape == size]
        assert model.get_input_embeddings() in words
        assert len(words) == 2 + (model.model.decoder.embed_tokens in words)
        assert len({id(module.weight) for module in words}) == 1


def test_rules_are_of_keys_that_there_are(architecture):
    config = architecture.config()
    assert config.rules.keys() - SummarizationConfig.rules.keys() <= config.to_dict().keys()


def test_configurations_import_no_layers(architecture):
    files = get_relative_import_files(inspect.getfile(type(architecture.config())))
    light = {"checks", "configuration_base"}
    assert {Path(file).stem for file in files} <= light


@pytest.mark.thorough
def test_config_is_written_by_several_threads(architecture):
    config = architecture.config()
    with ThreadPoolExecutor(8) as threads:
        texts = set(threads.map(lambda _: config.to_json_string(), range(400)))
    assert len(texts) == 1
    assert "custom_pipelines" in json.loads(texts.pop())
    assert not hasattr(config, "custom_pipelines")


@pytest.mark.parametrize("length", [0, -3, 1])
def test_lengths_without_room_for_a_subword_are_refused(architecture, tiny_tokenizer, length):
    processor = architecture.processor(tiny_tokenizer)
    for name in ("max_length", "max_target_length"):
        with pytest.raises(ValueError, match=f"`{name}` is {length}, but must be at least 2"):
            processor(SENTENCES, text_target=SENTENCES, **{name: length})
    with pytest.raises(ValueError, match="`pad_to_multiple_of` is 0, but must be at least 1"):
        processor(SENTENCES, padding=True, pad_to_multiple_of=0)


def test_blank_documents_of_an_example_are_not_read(architecture, tiny_tokenizer):
    _, processor = build_with_processor(architecture, tiny_tokenizer)
    first, second = SENTENCES[:2]
    for blanks, alone in (([first, " \n", second, ""], [first, second]), (["", "\t"], [""])):
        expected = processor([alone], return_tensors="pt")
        actual = processor([blanks], return_tensors="pt", return_lengths=True)
        assert [kept > 0 for kept in actual["kept_lengths"][0]] == [bool(text.strip()) for text in blanks]
        for name, values in expected.items():
            assert torch.equal(actual[name], values), name


@pytest.mark.thorough
@pytest.mark.parametrize("damage", ["missing", "unused"])
def test_broken_weights_are_not_summarized_with(architecture, tiny_tokenizer, tmp_path, damage):
    model, processor = build_with_processor(architecture, tiny_tokenizer)
    save(tmp_path, model, processor)
    file = tmp_path / "model.safetensors"
    weights = load_file(file)
    # the words' embedding is one of those that may be missing
    name = "model.shared.weight"
    if damage == "missing":
        del weights[name]
        message = f"^{tmp_path} has no weights for {name} \\(1 are missing\\): copy it again"
    else:
        weights["model.other.weight"] = torch.zeros(2)
        message = f"^{tmp_path} has unused weights for model.other.weight \\(1 are unused\\)"
    save_file(weights, file, metadata={"format": "pt"})
    with pytest.raises(ValueError, match=message):
        pipeline("summarization", model=str(tmp_path))
    # a user's own model may have been trained since
    trained = AutoModelForSeq2SeqLM.from_pretrained(tmp_path)
    assert pipeline("summarization", model=trained, processor=processor)(SENTENCES[0])


def test_installed_package_hides_the_pipeline_entry_of_a_saved_config(architecture, tmp_path):
    architecture.config().save_pretrained(tmp_path)
    assert "summarization" in json.loads((tmp_path / "config.json").read_text())["custom_pipelines"]
    assert not hasattr(AutoConfig.from_pretrained(tmp_path), "custom_pipelines")


@pytest.mark.parametrize("decoding", first(DECODINGS, 4))
def test_cached_decoding_equals_uncached(architecture, decoding):
    model, inputs = architecture.model(), architecture.inputs()
    cached = generate(model, inputs, use_cache=True, **DECODINGS[decoding])
    uncached = generate(model, inputs, use_cache=False, **DECODINGS[decoding])
    torch.testing.assert_close(cached, uncached, rtol=0, atol=0)


@pytest.mark.thorough
@pytest.mark.parametrize("decoding", ["greedy", "beams", "several beams", "blocked beams", "GNMT penalty"])
def test_batched_decoding_equals_each_document_alone(architecture, decoding):
    model, inputs = architecture.model(), architecture.inputs()
    settings = DECODINGS[decoding]
    together = generate(model, inputs, **settings)
    sequences = settings.get("num_return_sequences", 1)
    for row, length in enumerate(inputs["attention_mask"].sum(-1).tolist()):
        document = {name: value[row : row + 1, :length] for name, value in inputs.items()}
        alone = generate(model, document, **settings)
        in_batch = together[row * sequences : (row + 1) * sequences]
        assert_same_texts(in_batch, alone, architecture.end_token_id)


@pytest.mark.thorough
@pytest.mark.parametrize("num_beams", [1, 3])
def test_teacher_forced_scores_equal_those_of_generate(architecture, num_beams):
    model, inputs = architecture.model(), architecture.inputs()
    outputs = generate(
        model, inputs, num_beams=num_beams, min_new_tokens=9, return_dict_in_generate=True, output_scores=True
    )
    beams = outputs.get("beam_indices")
    transitions = model.compute_transition_scores(outputs.sequences, outputs.scores, beams, normalize_logits=True)
    forced = model(**inputs, decoder_input_ids=outputs.sequences[:, :-1]).logits
    # min_new_tokens keeps the end out
    forced[:, :, architecture.end_token_id] = -torch.inf
    scores = forced.log_softmax(-1).gather(-1, outputs.sequences[:, 1:, None])[..., 0]
    torch.testing.assert_close(transitions.double(), scores.double(), rtol=1e-5, atol=1e-5)


def test_few_rows_are_scored_like_many(architecture):
    model = architecture.model().float()
    states = torch.randn(3, 4, model.lm_head.in_features)
    with torch.no_grad():
        few = torch.cat([project_to_words(model.lm_head, rows) for rows in states.split(1)])
        torch.testing.assert_close(few, model.lm_head(states))
    assert torch.equal(project_to_words(model.lm_head, states[:1]), model.lm_head(states[:1]))


def test_source_is_kept_once_a_document(architecture):
    model, inputs = architecture.model(), architecture.inputs()
    outputs = generate(model, inputs, num_beams=4, return_dict_in_generate=True)
    keys = outputs["cache"].cross_attention_cache.layers[0].keys
    assert keys.shape[0] == inputs["input_ids"].shape[0]


def test_recorded_cross_attention_has_a_row_a_beam(architecture):
    model, inputs = architecture.model(), architecture.inputs()
    model.set_attn_implementation("eager")
    outputs = generate(model, inputs, num_beams=2, return_dict_in_generate=True, output_attentions=True)
    weights = outputs.cross_attentions[1][0]
    heads = architecture.attention_heads
    assert weights.shape == (6, heads, 1, 11)
    torch.testing.assert_close(weights.sum(-1), torch.ones(6, heads, 1, dtype=weights.dtype))


def test_eager_and_sdpa_attention_agree(architecture):
    model, inputs, labels = architecture.model(), architecture.inputs(), architecture.labels()
    expected = model(**inputs, labels=labels).logits
    model.set_attn_implementation("eager")
    torch.testing.assert_close(model(**inputs, labels=labels).logits, expected)


def test_padding_changes_nothing(architecture):
    model, inputs, labels = architecture.model(), architecture.inputs(), architecture.labels()
    wider = {name: torch.nn.functional.pad(value, (0, 5)) for name, value in inputs.items()}
    expected, actual = model(**inputs, labels=labels), model(**wider, labels=labels)
    torch.testing.assert_close(actual.logits, expected.logits)


@pytest.mark.thorough
@pytest.mark.parametrize("use_reentrant", [True, False])
def test_gradient_checkpointing_gives_the_same_gradients(architecture, use_reentrant):
    if architecture.not_checkpointed:
        pytest.skip(architecture.not_checkpointed)
    inputs, labels = architecture.inputs(), architecture.labels()
    gradients = []
    for checkpointing in (False, True):
        model = architecture.model().train()
        if checkpointing:
            model.gradient_checkpointing_enable({"use_reentrant": use_reentrant})
        model(**inputs, labels=labels).loss.backward()
        gradients.append({name: value.grad for name, value in model.named_parameters()})
    for name, expected in gradients[0].items():
        torch.testing.assert_close(gradients[1][name], expected, msg=lambda message, name=name: f"{name}: {message}")


@pytest.mark.thorough
def test_accumulated_gradients_equal_one_large_batch(architecture):
    model, inputs, labels = architecture.model(), architecture.inputs(), architecture.labels()
    tokens = (labels != -100).sum()
    model(**inputs, labels=labels).loss.backward()
    whole = {name: value.grad.clone() for name, value in trainable(model)}
    model.zero_grad()
    for row in range(3):
        part = {name: value[row : row + 1] for name, value in inputs.items()}
        model(**part, labels=labels[row : row + 1], num_items_in_batch=tokens).loss.backward()
    for name, value in trainable(model):
        torch.testing.assert_close(value.grad, whole[name], msg=lambda message, name=name: f"{name}: {message}")


def test_every_parameter_learns(architecture):
    model = architecture.model()
    model(**architecture.inputs(), labels=architecture.labels()).loss.backward()
    unused = [name for name, value in trainable(model) if value.grad is None or not value.grad.any()]
    assert not unused


@pytest.mark.thorough
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_stays_close(architecture, dtype):
    model, inputs, labels = architecture.model(), architecture.inputs(), architecture.labels()
    expected = model(**inputs, labels=labels).loss
    half = model.to(dtype)
    loss = half(**inputs, labels=labels).loss
    torch.testing.assert_close(loss, expected.float(), rtol=0.05, atol=0.05)
    assert generate(half, inputs, num_beams=2).shape[0] == 3


@pytest.mark.thorough
@pytest.mark.parametrize("architecture", EACH_BY_ONE)
def test_model_is_one_graph(architecture):
    model, inputs, labels = architecture.model(), architecture.inputs(), architecture.labels()
    losses, gradients = [], []
    # graphs of other tests count for the limit of recompilations
    torch.compiler.reset()
    # torch's own switch, for DRGD's encoder
    with torch._dynamo.config.patch(allow_rnn=True):
        for forward in (model, torch.compile(model, backend="eager", fullgraph=True)):
            losses.append(forward(**inputs, labels=labels).loss)
            gradients.append(torch.autograd.grad(losses[-1], [value for _, value in trainable(model)]))
    torch.testing.assert_close(losses[1], losses[0])
    torch.testing.assert_close(gradients[1], gradients[0])


def test_padding_is_not_looked_for_on_accelerators():
    mask = source_padding_mask(torch.ones(2, 5, device="meta"))
    assert mask is not None
    assert mask.shape == (2, 1, 1, 5)
    assert source_padding_mask(torch.ones(2, 5)) is None


@pytest.mark.thorough
@pytest.mark.parametrize("architecture", EACH_BY_ONE)
def test_forward_pass_can_be_exported(architecture):
    model = architecture.model()
    inputs = {**architecture.inputs(), "decoder_input_ids": architecture.labels().clamp(min=0), "use_cache": False}
    with torch.no_grad():
        exported = torch.export.export(model, (), inputs, strict=False).module()
        torch.testing.assert_close(exported(**inputs).logits, model(**inputs).logits)


def test_what_generate_cannot_do_is_refused(architecture):
    model = architecture.model()
    key = next(name for name in ADDED_SETTINGS if name not in model.generation_keys)
    message = f"`{key}`: the model is a {model.config.model_type}, which does not support it"
    with pytest.raises(ValueError, match=message):
        generate(model, architecture.inputs(), **{key: True})
    with pytest.raises(ValueError, match="no_repeat_words"):
        generate(model, architecture.inputs(), no_repeat_words=3)


def test_label_outside_the_vocabulary_is_named(architecture):
    for label in (VOCAB_SIZE, -1):
        with pytest.raises(ValueError, match=f"label {label} is outside the vocabulary of {VOCAB_SIZE}"):
            architecture.model()(**architecture.inputs(), labels=torch.full((3, 2), label))


def test_mask_of_one_row_is_not_that_of_all(architecture):
    model, inputs = architecture.model(), architecture.inputs()
    inputs["attention_mask"] = inputs["attention_mask"][:1]
    with pytest.raises((ValueError, RuntimeError), match=r"`attention_mask` has shape \(1, |^Sizes of tensors must"):
        model(**inputs, labels=architecture.labels())


@pytest.mark.parametrize("training", [False, True])
def test_rows_of_labels_fit_the_documents_and_decoder_inputs(architecture, training):
    model, inputs = architecture.model().train(training), architecture.inputs()
    documents = len(inputs["input_ids"])
    # with as many positions as documents, a view would divide fewer rows evenly
    labels = torch.full((1, documents), 5)
    with pytest.raises(ValueError, match=f"1 rows of labels or decoder inputs but {documents} documents"):
        model(**inputs, labels=labels)
    with pytest.raises(ValueError, match=r"labels have shape \(1, .\), but decoder inputs"):
        model(**inputs, labels=labels, decoder_input_ids=labels.expand(documents, -1))
    # the decoder itself accepts several rows a document, as beams have them
    labels = architecture.labels(rows=2 * documents)
    assert len(model(**inputs, decoder_input_ids=labels.clamp(min=0)).logits) == 2 * documents
    with pytest.raises(ValueError, match=f"{2 * documents} rows of labels but {documents} documents"):
        model(**inputs, labels=labels)


@pytest.mark.thorough
def test_word_limits_need_no_tokenizer_beside_a_loaded_checkpoint(architecture, tiny_tokenizer, tmp_path):
    # the limits are in its generation config
    model, processor = build_with_processor(architecture, tiny_tokenizer)
    # each token a word, so that words repeat
    vocabulary = tiny_tokenizer.get_vocab()
    words = {token for token in vocabulary if token.startswith("Ġ") and len(token) > 1}
    model.generation_config.suppress_tokens = [vocabulary[token] for token in vocabulary if token not in words]
    inputs = processor(SENTENCES, return_tensors="pt")
    expected = model.generate(**inputs, tokenizer=processor)
    without = model.generate(**inputs, no_repeat_word_ngram_size=0, min_new_words=0)
    assert not torch.equal(expected, without)
    save(tmp_path, model, processor)
    loaded = AutoModelForSeq2SeqLM.from_pretrained(tmp_path)
    torch.testing.assert_close(loaded.generate(**inputs), expected)


@pytest.mark.thorough
def test_word_limits_ask_for_a_tokenizer_that_is_gone(architecture, tmp_path):
    model = architecture.model()
    with pytest.raises(ValueError, match=r"need the tokenizer: give it as .* tokenizer=processor.*set them to 0"):
        generate(model, architecture.inputs(), no_repeat_word_ngram_size=3)
    model.save_pretrained(tmp_path)
    loaded = AutoModelForSeq2SeqLM.from_pretrained(tmp_path)
    with pytest.raises(ValueError, match=r"need the tokenizer: give it as .* tokenizer=processor.*set them to 0"):
        generate(loaded, architecture.inputs(), min_new_words=3)


@pytest.mark.thorough
def test_tokenizer_of_another_vocabulary_is_refused(architecture, tiny_tokenizer, tmp_path):
    save(tmp_path, architecture.model(), tiny_tokenizer)
    loaded = AutoModelForSeq2SeqLM.from_pretrained(tmp_path)
    message = f"the tokenizer has {len(tiny_tokenizer)} tokens and the model {VOCAB_SIZE}"
    with pytest.raises(ValueError, match=message):
        generate(loaded, architecture.inputs(), min_new_words=3)
    with pytest.raises(ValueError, match=message):
        generate(architecture.model(), architecture.inputs(), min_new_words=3, tokenizer=tiny_tokenizer)


@pytest.mark.parametrize("has_model", [True, False])
def test_transformers_collator_gives_the_same_batches(architecture, tiny_tokenizer, has_model):
    processor = architecture.processor(tiny_tokenizer)
    model = architecture.head_class(architecture.config_for(processor)) if has_model else None
    rows = training_rows(processor)
    for multiple in (None, 8):
        batch = DataCollatorForSeq2Seq(processor, model, pad_to_multiple_of=multiple)(rows)
        expected = SummarizationCollator(processor, model, pad_to_multiple_of=multiple)(rows)
        assert batch.keys() == expected.keys()
        for name, value in expected.items():
            torch.testing.assert_close(batch[name], value)


@pytest.mark.thorough
def test_trainer_round_trip(architecture, tiny_tokenizer, tmp_path):
    processor = architecture.processor(tiny_tokenizer, max_source_length=24, max_target_length=12)
    model = architecture.head_class(architecture.config_for(processor))
    rows = training_rows(processor)
    settings = {"max_steps": 2, "per_device_train_batch_size": 2, "save_steps": 2, "generation_max_length": 8}
    settings |= {"predict_with_generate": True, "use_cpu": True, "report_to": "none", "disable_tqdm": True}
    arguments = Seq2SeqTrainingArguments(str(tmp_path), **settings)
    trainer = Seq2SeqTrainer(
        model=model,
        args=arguments,
        train_dataset=rows,
        eval_dataset=rows,
        data_collator=SummarizationCollator(processor, model),
        processing_class=processor,
    )
    trainer.train()
    assert trainer.predict(rows).predictions.shape[0] == len(rows)
    checkpoint = tmp_path / "checkpoint-2"
    assert type(AutoProcessor.from_pretrained(checkpoint)) is architecture.processor_class
    loaded = AutoModelForSeq2SeqLM.from_pretrained(checkpoint)
    for name, parameter in loaded.named_parameters():
        torch.testing.assert_close(parameter, dict(model.named_parameters())[name].cpu(), rtol=0, atol=0)


@pytest.mark.thorough
def test_an_output_of_its_own_shares_nothing(architecture, tmp_path):
    """`tie_word_embeddings=False` unties the output layer, and nothing else."""
    model = architecture.model(tie_word_embeddings=False)
    model.lm_head.weight.data.normal_()
    model.save_pretrained(tmp_path / "model")
    loaded, report = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "model", output_loading_info=True)
    assert not report["missing_keys"]
    assert loaded.lm_head.weight.data_ptr() != loaded.get_input_embeddings().weight.data_ptr()
    settings = {**architecture.inputs(), "labels": architecture.labels()}
    torch.testing.assert_close(loaded.double().eval()(**settings).loss, model(**settings).loss)
