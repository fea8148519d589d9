"""What people do with the plain trainer of transformers."""

import numpy as np
import pytest
import torch
from transformers import Seq2SeqTrainer, Seq2SeqTrainingArguments

from hf_summ import SummarizationCollator
from hf_summ.data import fit_vocabulary
from tests.models.architectures import COPY_TRANSFORMER, DRGD, POINTER_GENERATOR, SAGCOPY, build_with_processor
from tests.training import tiny


# the plain Trainer takes the labels away and smooths the logits, without KL and guidance
@pytest.mark.parametrize("architecture", [COPY_TRANSFORMER, DRGD, SAGCOPY], ids=["copy_transformer", "drgd", "sagcopy"])
def test_label_smoothing_of_the_plain_trainer_keeps_the_whole_loss(tiny_tokenizer, tmp_path, architecture):
    rows, losses = tiny.rows(4), []
    for factor in (0.0, 1e-6):
        model, processor = build_with_processor(architecture, tiny_tokenizer)
        model.config.label_smoothing = 0.0
        documents, summaries = [row["document"] for row in rows], [row["summary"] for row in rows]
        encoded = processor(text=documents, text_target=summaries, truncation=True)
        batch = [{name: encoded[name][row] for name in encoded} for row in range(len(rows))]
        arguments = Seq2SeqTrainingArguments(
            str(tmp_path), label_smoothing_factor=factor, report_to="none", use_cpu=True, disable_tqdm=True
        )
        collator = SummarizationCollator(processor, model=model)
        trainer = Seq2SeqTrainer(model=model, args=arguments, data_collator=collator, processing_class=processor)
        losses.append(trainer.evaluate(batch)["eval_loss"])
        assert model.config.label_smoothing == factor
    assert losses[0] == pytest.approx(losses[1], abs=1e-4)
    model.config.label_smoothing = 0.2
    assert Seq2SeqTrainer(model=model, args=arguments, data_collator=collator).label_smoother is None
    assert model.config.label_smoothing == 0.2


# huggingface/notebooks#438: `model_init` is called again when training starts, and #19777 of transformers: evaluations
# during training pass no settings to `generate`, so that a new model had no tokenizer to count words with
def test_a_plain_trainer_adapts_the_model_that_it_makes(tiny_tokenizer, tmp_path):
    settings = {"label_smoothing_factor": 0.3, "predict_with_generate": True, "generation_max_length": 8}
    run = {"max_steps": 1, "eval_strategy": "steps", "eval_steps": 1, "save_strategy": "no", "use_cpu": True}
    processor = COPY_TRANSFORMER.processor(tiny_tokenizer)
    encoded = processor([row["document"] for row in tiny.rows(2)], text_target=["Ana.", "Ben."])
    rows = [{name: encoded[name][row] for name in encoded} for row in range(2)]
    trainer = Seq2SeqTrainer(
        model_init=lambda: build_with_processor(COPY_TRANSFORMER, tiny_tokenizer)[0],
        args=Seq2SeqTrainingArguments(str(tmp_path), **settings, **run, report_to="none"),
        train_dataset=rows,
        eval_dataset=rows,
        data_collator=SummarizationCollator(processor),
        processing_class=processor,
    )
    trainer.train()
    assert (trainer.model.config.label_smoothing, trainer.label_smoother) == (0.3, None)
    inputs = {name: ids for name, ids in processor.pad(rows).items() if name != "labels"}
    expected = trainer.model.generate(**inputs, tokenizer=processor, max_length=8)
    assert trainer.predict(rows).predictions[:, : expected.shape[1]].tolist() == expected.tolist()


# huggingface/autotrain-advanced#830: trainers fill up predictions and labels with -100
def test_ignored_labels_are_decoded_as_padding(tiny_tokenizer):
    _, processor = build_with_processor(DRGD, tiny_tokenizer)
    row = processor(text_target=["Ana sold it."])["labels"][0]
    text = processor.batch_decode([row], skip_special_tokens=True)
    for ids in (row, [*row, -100], torch.tensor([*row, -100]), np.array([*row, -100])):
        assert [processor.decode(ids, skip_special_tokens=True)] == text
    assert processor.decode([]) == ""


# the scores have a column for each position of the longest document, so batches could not be joined to one array
@pytest.mark.parametrize("predict_with_generate", [False, True])
def test_predictions_of_the_plain_trainer_have_no_scores_of_pointers(tmp_path, predict_with_generate):
    documents = ["Zorblax opened it .", "Mayor Ana opened the new bridge in Rome ."]
    tokenizer = fit_vocabulary(documents[1:] * 3, units="words", show_progress=False)
    model, processor = build_with_processor(POINTER_GENERATOR, tokenizer)
    encoded = processor(documents, text_target=["Zorblax opened .", "Ana opened it ."])
    rows = [{name: encoded[name][row] for name in encoded} for row in range(2)]
    settings = {"per_device_eval_batch_size": 1, "predict_with_generate": predict_with_generate}
    arguments = Seq2SeqTrainingArguments(str(tmp_path), **settings, report_to="none", use_cpu=True, disable_tqdm=True)
    collator = SummarizationCollator(processor)
    trainer = Seq2SeqTrainer(model=model, args=arguments, data_collator=collator, processing_class=processor)
    predictions = trainer.predict(rows).predictions
    for index, row in enumerate(rows):
        inputs = collator([row])
        if predict_with_generate:
            del inputs["labels"]
            expected = model.generate(**inputs, tokenizer=processor)[0]
            found = predictions[index]
        else:
            expected = model(**inputs).logits[0, :, : len(tokenizer)]
            found = predictions[0][index]
        np.testing.assert_allclose(found[: len(expected)], expected.detach(), rtol=1e-5)
    kept = Seq2SeqTrainer(model=model, args=arguments, preprocess_logits_for_metrics=max)
    assert kept.preprocess_logits_for_metrics is max
