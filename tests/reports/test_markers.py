"""Special tokens that users add to a vocabulary, to mark parts of texts."""

import copy

import pytest
from transformers import AddedToken, AutoProcessor

from hf_summ.models.generation_sentences import candidates_of
from hf_summ.models.text_processing_sagcopy import SagCopyTextProcessor
from hf_summ.runtimes.folder_tokenizer import FolderTokenizer
from tests.models.architectures import DRGD, GDLF, SAGCOPY, build_with_processor


# markers that users add are usually special tokens, which were split into letters
@pytest.mark.parametrize("architecture", [GDLF, DRGD, SAGCOPY], ids=["gdlf", "drgd", "sagcopy"])
def test_markers_that_users_add_are_tokens(tiny_tokenizer, tmp_path, architecture):
    _, processor = build_with_processor(architecture, tiny_tokenizer)
    processor.save_pretrained(tmp_path)
    processor = AutoProcessor.from_pretrained(tmp_path)
    processor.tokenizer.add_special_tokens({"additional_special_tokens": ["<org>"]})
    # transformers stores these elsewhere
    processor.tokenizer.add_tokens(["<loc>"], special_tokens=True)
    processor.tokenizer.add_tokens([AddedToken("<per>", special=True)])
    processor.save_pretrained(tmp_path / "added")
    for reader in (processor, AutoProcessor.from_pretrained(tmp_path / "added")):
        for marker in ("<org>", "<loc>", "<per>"):
            marker_id = reader.tokenizer.convert_tokens_to_ids(marker)
            encoded = reader(text=[f"{marker} Ana sold it."], text_target=[f"{marker} sold it."])
            assert marker_id in encoded["input_ids"][0]
            assert marker_id in encoded["labels"][0]


# the name of a special token is read as text, unless a user added special tokens, in whatever order
def test_special_tokens_of_the_vocabulary_itself_are_no_markers(tiny_tokenizer):
    _, processor = build_with_processor(SAGCOPY, copy.deepcopy(tiny_tokenizer))
    tokenizer = processor.tokenizer
    assert tokenizer.eos_token_id not in processor(text=[f"Ana {tokenizer.eos_token} sold it."])["input_ids"][0][:-1]
    tokenizer.add_tokens(["<sec>"], special_tokens=True)
    tokenizer.add_special_tokens({"mask_token": "[M]"})
    assert tokenizer.convert_tokens_to_ids("<sec>") in processor(text=["Ana <sec> sold it."])["input_ids"][0]


# a service and a trainer may tokenize in several threads, which share the state of a fast tokenizer
def test_every_call_of_a_tokenizer_keeps_markers(tiny_tokenizer, tmp_path):
    _, processor = build_with_processor(SAGCOPY, copy.deepcopy(tiny_tokenizer))
    processor.tokenizer.add_tokens(["<org>"], special_tokens=True)
    processor.save_pretrained(tmp_path)
    processor = AutoProcessor.from_pretrained(tmp_path)
    tokenizer = processor.tokenizer
    folder_tokenizer = FolderTokenizer(tmp_path)
    reader = SagCopyTextProcessor(folder_tokenizer)
    (source,) = reader.read_sources("The <org> museum was sold to the town.", None)
    assert folder_tokenizer.convert_tokens_to_ids("<org>") in source.row.input_ids
    (candidate,) = candidates_of("The <org> museum was sold to the town.", tokenizer, 99, special_tokens=False)
    assert tokenizer.convert_tokens_to_ids("<org>") in candidate.ids
    labels = processor(text_target=[candidate.text])["labels"][0]
    assert candidate.ids == labels
    # no call changes the state
    assert not tokenizer.backend_tokenizer.encode_special_tokens
