"""What people do with a model and its checkpoint."""

import copy
import dataclasses

import pytest
import torch
from datasets.fingerprint import Hasher
from safetensors.torch import load_file, save_file
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from transformers import AutoModelForSeq2SeqLM, AutoProcessor, AutoTokenizer, GenerationConfig, pipeline
from transformers.utils.logging import get_logger

from hf_summ.checkpoints.loading import ModelArguments, load_config, load_processor
from hf_summ.cli import main
from hf_summ.training.arguments import DataArguments, GenerationArguments, LoraArguments
from hf_summ.training.model import build
from tests.conftest import SENTENCES, save
from tests.data.files import change_json
from tests.models.architectures import (
    COPY_TRANSFORMER,
    COPY_TRANSFORMER_BERT,
    DRGD,
    GDLF,
    GDLF_COPY,
    HIGHLIGHT_TRANSFORMER,
    POINTER_GENERATOR,
    SAGCOPY,
    TINY_BERT,
    Architecture,
    build_with_processor,
    generate,
)
from tests.reports.tiny_models import foreign


def model_type(architecture: Architecture) -> str:
    """The name of an architecture in the ids of tests."""
    return architecture.model_type


ALL = (GDLF, COPY_TRANSFORMER, DRGD, HIGHLIGHT_TRANSFORMER, SAGCOPY, POINTER_GENERATOR)
every_architecture = pytest.mark.parametrize("architecture", ALL, ids=model_type)


# huggingface/transformers#2952, huggingface/tokenizers#1187: ids have 32 bits where they come from arrays of Windows
@every_architecture
def test_ids_may_have_32_bits(tiny_tokenizer, architecture):
    model, processor = build_with_processor(architecture, tiny_tokenizer)
    inputs = processor(SENTENCES[:2], text_target=SENTENCES[2:4], return_tensors="pt")
    short_inputs = {}
    for name, values in inputs.items():
        short_inputs[name] = values if values.is_floating_point() else values.int()
    assert model.train(False)(**short_inputs).loss == model(**inputs).loss
    del inputs["labels"], short_inputs["labels"]
    settings = {"tokenizer": processor, "num_beams": 2, "max_new_tokens": 4}
    assert torch.equal(model.generate(**short_inputs, **settings), model.generate(**inputs, **settings))


# shap's `TextGeneration` cuts the input's length off the output of a model whose configuration does not say
@every_architecture
def test_other_programs_see_an_encoder_and_a_decoder(tiny_tokenizer, architecture):
    model, _ = build_with_processor(architecture, tiny_tokenizer)
    assert model.config.is_encoder_decoder is True
    assert model.config.is_decoder is False
    assert "is_decoder" not in model.config.to_dict()


# mittagessen/kraken#610, pytorch/pytorch#88136: what a layer computes under autocast, a CPU may lack in half precision
@every_architecture
def test_half_precision_on_a_cpu(tiny_tokenizer, architecture):
    model, processor = build_with_processor(architecture, tiny_tokenizer)
    inputs = processor(SENTENCES[:2], text_target=SENTENCES[2:4], return_tensors="pt")
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = model.train(False)(**inputs).loss
    loss.backward()
    assert loss.item() == pytest.approx(model(**inputs).loss.item(), rel=0.05)
    del inputs["labels"]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        model.generate(**inputs, tokenizer=processor, num_beams=2, max_new_tokens=3)


# huggingface/transformers#22634, oliverguhr/spelling#6: trainers fill up labels and summaries with ignored labels
@every_architecture
def test_ignored_labels_are_decoded_as_padding(tiny_tokenizer, architecture):
    processor = build_with_processor(architecture, tiny_tokenizer)[1]
    rows = processor(text_target=SENTENCES[:2], return_tensors="pt")["labels"]
    assert (rows < 0).any()
    texts = processor.batch_decode([row[row >= 0] for row in rows], skip_special_tokens=True)
    for labels in (rows, rows.numpy(), rows.tolist()):
        assert processor.batch_decode(labels, skip_special_tokens=True) == texts


# transformers' run_summarization.py and scripts after it read summaries so
@every_architecture
def test_summaries_alone_are_truncated_to_the_length_of_the_call(tiny_tokenizer, architecture):
    processor = build_with_processor(architecture, tiny_tokenizer)[1]
    labels = processor(text_target=SENTENCES[:2], max_length=6, truncation=True)["labels"]
    assert labels == processor(SENTENCES[:2], text_target=SENTENCES[:2], max_target_length=6)["labels"]
    assert [len(row) for row in labels] == [6, 6]
    # with --pad_to_max_length, all batches have one shape
    padded = processor(text_target=SENTENCES[:2], max_length=40, truncation=True, padding="max_length")["labels"]
    assert [len(row) for row in padded] == [40, 40]
    labels = processor(text_target=SENTENCES[:2])["labels"]
    for padded_row, row in zip(padded, labels, strict=True):
        assert [label for label in padded_row if label >= 0] == row
    # a name of transformers' tokenizers
    whole = processor(SENTENCES[:1], text_target=SENTENCES[:1], max_length=6, truncation="do_not_truncate")
    assert whole["labels"] == processor(text_target=SENTENCES[:1])["labels"]
    assert whole["input_ids"] == processor(SENTENCES[:1])["input_ids"]


# huggingface/transformers#25917: the `generation_config` of a trainer's arguments replaces the model's, with its tokens
@every_architecture
def test_a_new_generation_config_has_the_tokens_of_the_model(tiny_tokenizer, architecture):
    model, processor = build_with_processor(architecture, tiny_tokenizer)
    inputs = processor(SENTENCES[:2], return_tensors="pt")
    settings = {"num_beams": 2, "max_new_tokens": 5}
    model.generation_config.update(min_new_words=None, no_repeat_word_ngram_size=None)
    expected = model.generate(**inputs, **settings)
    # a trainer aligns it with the tokenizer in this way
    model.generation_config = GenerationConfig(**settings, bos_token_id=model.config.bos_token_id)
    assert torch.equal(model.generate(**inputs), expected)
    for name in ("decoder_start_token_id", "eos_token_id", "pad_token_id"):
        assert getattr(model.generation_config, name) == getattr(model.config, name)


# transformers' run_summarization_no_trainer.py gives `generate` the ids and their mask alone
def test_texts_without_phrases_are_noted(caplog):
    inputs = HIGHLIGHT_TRANSFORMER.inputs()
    model = HIGHLIGHT_TRANSFORMER.model()
    get_logger("transformers").warning_once.cache_clear()
    generate(model, inputs)
    assert not caplog.text
    generate(model, {name: inputs[name] for name in ("input_ids", "attention_mask")})
    assert caplog.text.count("nothing is highlighted, as no `phrase_starts` are given") == 1


# huggingface/datasets#3638, #5985: use changed what a tokenizer hashes to, and all rows were processed again
@pytest.mark.parametrize("architecture", [GDLF, HIGHLIGHT_TRANSFORMER], ids=model_type)
def test_a_used_processor_finds_the_rows_that_it_has_processed(tiny_tokenizer, architecture):
    processor = architecture.processor(copy.deepcopy(tiny_tokenizer))
    processor.tokenizer.add_special_tokens({"additional_special_tokens": ["<hl>"]})
    fresh = Hasher.hash(processor)
    processor(f"<hl> {SENTENCES[0]}", text_target=SENTENCES[1], return_tensors="pt")
    assert Hasher.hash(processor) == fresh


# huggingface/transformers#10646: only BART's family reads the source itself if the decoder has no input
@every_architecture
def test_a_decoder_without_input_is_named(tiny_tokenizer, architecture):
    model, processor = build_with_processor(architecture, tiny_tokenizer)
    with pytest.raises(ValueError, match="the decoder needs `decoder_input_ids`, which the model makes from `labels`"):
        model(**processor(SENTENCES[:2], return_tensors="pt"))


# huggingface/transformers#4838: a single document, whose ids are no batch
@every_architecture
def test_ids_without_rows_are_named(tiny_tokenizer, architecture):
    model, processor = build_with_processor(architecture, tiny_tokenizer)
    inputs = {name: ids[0] for name, ids in processor(SENTENCES[:1], return_tensors="pt").items()}
    length = len(inputs["input_ids"])
    message = rf"`input_ids` has shape \({length},\), but must have a row for each"
    with pytest.raises(ValueError, match=message):
        model.generate(**inputs)
    with pytest.raises(ValueError, match=message):
        model(**inputs, labels=inputs["input_ids"][None])


# huggingface/transformers#10552, #22931: prompts of different lengths are padded on the left
@pytest.mark.parametrize("architecture", [DRGD, POINTER_GENERATOR], ids=model_type)
def test_recurrent_decoders_read_no_padding_before_a_prompt(architecture):
    prompts = {"decoder_input_ids": torch.tensor([[0, 1, 7], [0, 1, 8], [1, 7, 9]])}
    for mask in ([1, 1, 1], [1, 1, 0]):
        architecture.model()(**architecture.inputs(), **prompts, decoder_attention_mask=torch.tensor([mask] * 3))
    prompts["decoder_attention_mask"] = torch.tensor([[0, 1, 1], [0, 1, 1], [1, 1, 1]])
    for call in (architecture.model(), architecture.model().generate):
        with pytest.raises(ValueError, match="`decoder_attention_mask` has padding before tokens: give recurrent"):
            call(**architecture.inputs(), **prompts)


# pytorch/ignite#2590: averages of integer buffers are rounded down, of BERT's positions too
def test_averaged_models_have_the_positions_of_their_berts():
    conditioned = {**COPY_TRANSFORMER_BERT.settings, "copy": False, "masked_lm_config": TINY_BERT, "mask_token_id": 3}
    source = dataclasses.replace(COPY_TRANSFORMER_BERT, settings=conditioned)
    model = source.model()
    averaged = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9), use_buffers=True)
    for _ in range(3):
        averaged.update_parameters(model)
    averaged_model = averaged.module.eval()
    inputs, labels = source.inputs(), source.labels()
    torch.testing.assert_close(averaged_model(**inputs, labels=labels).loss, model(**inputs, labels=labels).loss)
    settings = {"lm_rejected_factor": 0.01, "output_scores": True, "return_dict_in_generate": True}
    scores = torch.stack(generate(averaged_model, inputs, **settings).scores)
    expected = torch.stack(generate(model, inputs, **settings).scores)
    torch.testing.assert_close(scores, expected)


# huggingface/transformers#40781: a trainer that has the tokenizer alone saves no processor, nor its settings
@every_architecture
def test_a_folder_with_the_tokenizer_alone_is_noted(tiny_tokenizer, tmp_path, caplog, architecture):
    model, processor = build_with_processor(architecture, tiny_tokenizer)
    processor.save_pretrained(tmp_path / "both")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "both")
    # a T5 with the same vocabulary has no processor
    t5 = save(tmp_path / "t5", foreign("t5", tokenizer), tokenizer)
    assert type(AutoProcessor.from_pretrained(t5)) is type(tokenizer)
    assert type(pipeline("summarization", model=t5).processor) is not architecture.processor_class
    assert "has no processor_config.json" not in caplog.text
    folder = save(tmp_path / "model", model, tokenizer)
    assert type(AutoProcessor.from_pretrained(folder)) is architecture.processor_class
    assert type(pipeline("summarization", model=folder).processor) is architecture.processor_class
    assert "has no processor_config.json" in caplog.text


# the same report, of a trainer's adapter
def test_an_adapter_with_the_tokenizer_alone_has_the_settings_of_its_base(tiny_tokenizer, tmp_path, caplog):
    peft = pytest.importorskip("peft")
    model, processor = build_with_processor(GDLF_COPY, copy.deepcopy(tiny_tokenizer), max_source_length=8)
    base = save(tmp_path / "base", model, processor)
    processor.tokenizer.add_tokens(["<first>"])
    adapted = AutoModelForSeq2SeqLM.from_pretrained(base)
    adapted.resize_token_embeddings(len(processor.tokenizer))
    adapted = peft.get_peft_model(adapted, peft.LoraConfig(task_type="SEQ_2_SEQ_LM"))
    folder = save(tmp_path / "adapter", adapted, processor.tokenizer)

    def processors() -> list:
        """The processors of the pipeline and of training."""
        start = ModelArguments(model_name_or_path=folder)
        run_model = build(start, LoraArguments(), DataArguments(), GenerationArguments(), is_trainable=False)
        return [pipeline("summarization", model=folder).processor, run_model.processor]

    for loaded in processors():
        assert (loaded.max_source_length, loaded.tags) == (8, "none")
        assert len(loaded.tokenizer) == len(tiny_tokenizer) + 1
    assert "processor_config.json" not in caplog.text
    (tmp_path / "base" / "processor_config.json").unlink()
    assert pipeline("summarization", model=folder).processor.tags == "pos"
    message = f"neither {folder} nor {base} has a processor_config.json, so GdlfProcessor has its default settings"
    assert message in caplog.text


def test_weights_that_neither_an_adapter_nor_its_base_has_are_named(tiny_tokenizer, tmp_path):
    peft = pytest.importorskip("peft")
    model, processor = build_with_processor(GDLF_COPY, tiny_tokenizer)
    base = save(tmp_path / "base", model, processor)
    folders = {}
    for module in ("copy_gate", "lm_head"):
        config = peft.LoraConfig(task_type="SEQ_2_SEQ_LM", modules_to_save=[module])
        adapted = peft.get_peft_model(AutoModelForSeq2SeqLM.from_pretrained(base), config)
        folders[module] = save(tmp_path / module, adapted)
    weights_file = tmp_path / "base" / "model.safetensors"
    weights = load_file(weights_file)
    del weights["copy_gate.weight"], weights["copy_gate.bias"]
    save_file(weights, weights_file, metadata={"format": "pt"})
    assert pipeline("summarization", model=folders["copy_gate"])(SENTENCES[0], max_new_tokens=2)
    for folder in (base, folders["lm_head"]):
        with pytest.raises(
            ValueError, match=f"^{base} has no weights for copy_gate.bias .2 are missing.: copy it again"
        ):
            pipeline("summarization", model=folder)


# in transformers 5, AutoTokenizer makes a tokenizer without words if a folder has none
@pytest.mark.parametrize("family", ["bart", "t5", "mbart", "led"])
def test_a_folder_without_tokenizer_is_refused(tiny_tokenizer, tmp_path, family):
    folder = save(tmp_path, foreign(family, tiny_tokenizer))
    with pytest.raises(ValueError, match="the tokenizer has only special tokens, as its files are missing"):
        pipeline("summarization", model=folder)
    arguments = ModelArguments(model_name_or_path=folder)
    with pytest.raises(ValueError, match="only special tokens"):
        load_processor(arguments, load_config(arguments))
    tokenizer = copy.deepcopy(tiny_tokenizer)
    assert pipeline("summarization", model=folder, tokenizer=tokenizer)(SENTENCES[0], max_new_tokens=2)


# huggingface/peft#1457, #2415: embeddings of tokens that the base lacks; transformers itself loses DoRA's magnitudes
@pytest.mark.parametrize("architecture", [None, pytest.param(GDLF, marks=pytest.mark.thorough)], ids=["bart", "gdlf"])
@pytest.mark.parametrize("settings", [{"use_dora": True}, {"modules_to_save": ["embed_tokens", "lm_head"]}], ids=str)
def test_adapters_made_with_peft_are_loaded_whole(tiny_tokenizer, tmp_path, architecture, settings):
    peft = pytest.importorskip("peft")
    reader = copy.deepcopy(tiny_tokenizer)
    model = foreign("bart", reader)
    if architecture is not None:
        model, reader = build_with_processor(architecture, reader)
    save(tmp_path / "base", model, reader)
    tokenizer = getattr(reader, "tokenizer", reader)
    tokenizer.add_tokens(["<first>", "<second>"])
    base = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "base")
    base.resize_token_embeddings(len(tokenizer))
    config = peft.LoraConfig(task_type="SEQ_2_SEQ_LM", target_modules=["q_proj", "v_proj"], **settings)
    adapted = peft.get_peft_model(base, config).eval()
    for parameter in adapted.parameters():
        if parameter.requires_grad:
            parameter.data += 0.3 * torch.randn_like(parameter)
    folder = save(tmp_path / "adapter", adapted, reader)
    inputs = reader(["Ana <first> Lopez"], text_target=["<second> Ana"], return_tensors="pt")
    loaded = pipeline("summarization", model=folder).model
    torch.testing.assert_close(loaded(**inputs).logits, adapted(**inputs).logits)


def test_prompts_that_peft_trained_are_read(tiny_tokenizer, tmp_path):
    peft = pytest.importorskip("peft")
    base = save(tmp_path / "base", foreign("t5", tiny_tokenizer), tiny_tokenizer)
    config = peft.PromptTuningConfig(task_type="SEQ_2_SEQ_LM", num_virtual_tokens=2)
    adapted = peft.get_peft_model(AutoModelForSeq2SeqLM.from_pretrained(base), config).eval()
    adapted.prompt_encoder.default.embedding.weight.data.normal_(std=3)
    folder = save(tmp_path / "prompt", adapted, tiny_tokenizer)

    def summaries(model) -> list[dict]:
        tokenizer = copy.deepcopy(tiny_tokenizer)
        return pipeline("summarization", model=model, tokenizer=tokenizer, max_new_tokens=4)(SENTENCES)

    expected = summaries(adapted)
    assert summaries(folder) == expected
    assert summaries(base) != expected


# huggingface/peft#2001, huggingface/optimum-habana#557, tloen/alpaca-lora#503: bases that moved or were never named
def test_what_an_adapter_lacks_is_named(tiny_tokenizer, tmp_path, capsys, monkeypatch):
    peft = pytest.importorskip("peft")
    base = save(tmp_path / "base", foreign("bart", tiny_tokenizer), tiny_tokenizer)
    config = peft.LoraConfig(target_modules=["q_proj"])
    adapted = peft.get_peft_model(AutoModelForSeq2SeqLM.from_pretrained(base), config)
    folder = save(tmp_path / "adapter", adapted)
    (tmp_path / "text.txt").write_text(SENTENCES[0])

    def refusal() -> str:
        assert main(["summarize", str(tmp_path / "text.txt"), "--model", folder]) == 2
        return capsys.readouterr().err

    config = tmp_path / "adapter" / "adapter_config.json"
    change_json(config, base_model_name_or_path=None)
    assert f"--model {folder}: cannot be loaded: " in refusal()
    change_json(config, base_model_name_or_path=r"C:\models\base")
    error = refusal()
    assert f"--model {folder}: cannot be loaded: " in error
    assert r"C:\models\base" in error
