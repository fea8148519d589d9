"""A small Highlight-Transformer learns from the recipe that its phrases say what a summary is about."""

import pytest
from transformers import pipeline

from hf_summ.data.toy_news import make_corpus, steered_examples
from hf_summ.data.vocabulary import fit_processor
from hf_summ.training.run import main
from tests.data.files import read_rows
from tests.training import tiny

SIZES = {"d_model": 64, "encoder_layers": 2, "num_heads": 4, "ffn_dim": 128}


@pytest.mark.thorough
def test_summary_is_about_the_person_that_the_phrase_names(settings, tmp_path):
    make_corpus(tmp_path, steered_examples, train=4000, validation=1, test=40)
    train, test = (read_rows(tmp_path / f"{split}.jsonl") for split in ("train", "test"))
    texts = [text for row in train for text in (*row["documents"], row["summary"])]
    fit_processor(texts, units="words", tags="none").save_pretrained(tmp_path / "words")
    overrides = {**tiny.TRANSFORMER, **SIZES, "lit_heads": [0, 1], "brightness_decay": 1.0}
    given = {"model_type": "highlight_transformer", "config_overrides": overrides}
    given |= {"tokenizer_name": str(tmp_path / "words"), "train_file": str(tmp_path / "train.jsonl"), "seed": 1}
    given |= {"max_source_length": 100, "max_target_length": 24, "max_new_tokens": 24, "logging_steps": 100}
    given |= {"learning_rate": 5e-3, "warmup_steps": 30, "max_grad_norm": 1.0, "max_steps": 300}
    main([settings(**given, train_tokens_per_batch=None, per_device_train_batch_size=32)])
    summarizer = pipeline("summarization", model=str(tmp_path / "out"))
    documents = [row["documents"] for row in test]
    people = [(next(iter(row["phrases"])), row["other"]["phrase"]) for row in test]
    # of people who are not in the training part; steered to either event of each example
    for pairs in (people, [pair[::-1] for pair in people]):
        summaries = summarizer(documents, phrases=[[wanted] for wanted, _ in pairs], batch_size=20)
        named = [
            [person in summary["summary_text"] for person in pair]
            for summary, pair in zip(summaries, pairs, strict=True)
        ]
        assert named.count([True, False]) >= 38
