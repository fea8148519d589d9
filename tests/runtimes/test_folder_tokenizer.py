"""The tokenizer of a folder without transformers: its fields and texts are those of transformers."""

import pytest
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from hf_summ.data import fit_vocabulary
from hf_summ.runtimes.folder_tokenizer import FolderTokenizer
from hf_summ.runtimes.settings import PyTorchNeeded
from tests.conftest import SENTENCES, word_piece_tokenizer
from tests.data.files import change_json

TEXTS = [*SENTENCES, "", " a  b ", "Unfit wörds 新桥 </s> <unk> [CLS] [SEP]", "it's 'so', isn't it ?", "🎉 e\u0301"]
NAMED = ("bos", "eos", "unk", "sep", "pad", "cls", "mask")


@pytest.fixture(params=["bytes", "pieces", "words", "characters"])
def tokenizer(request, tiny_tokenizer) -> PreTrainedTokenizerFast:
    if request.param == "bytes":
        return tiny_tokenizer
    if request.param == "pieces":
        return word_piece_tokenizer(SENTENCES, 300)
    return fit_vocabulary(SENTENCES, units=request.param, min_frequency=1, lowercase=True, show_progress=False)


@pytest.mark.parametrize("settings", [{}, {"split_special_tokens": True}, {"clean_up_tokenization_spaces": True}])
def test_it_is_that_of_transformers(tokenizer, settings, tmp_path):
    tokenizer.save_pretrained(tmp_path)
    change_json(tmp_path / "tokenizer_config.json", **settings)
    reference, folder_tokenizer = AutoTokenizer.from_pretrained(tmp_path), FolderTokenizer(tmp_path)
    assert len(folder_tokenizer) == len(reference)
    assert folder_tokenizer.get_vocab() == reference.get_vocab()
    for name in NAMED:
        assert getattr(folder_tokenizer, f"{name}_token_id") == getattr(reference, f"{name}_token_id")
    assert set(folder_tokenizer.all_special_ids) == set(reference.all_special_ids)
    for name in ("model_max_length", "split_special_tokens", "clean_up_tokenization_spaces"):
        assert getattr(folder_tokenizer, name) == getattr(reference, name)
    calls = [
        {"return_offsets_mapping": True},
        {"add_special_tokens": False, "verbose": False, "return_attention_mask": False},
        {"return_special_tokens_mask": True},
    ]
    for call in calls:
        expected = reference(TEXTS, return_token_type_ids=False, **call)
        fields = folder_tokenizer(TEXTS, **call)
        for name in {"input_ids", "offset_mapping", "special_tokens_mask"} & expected.keys():
            assert fields[name] == expected[name]
    assert folder_tokenizer(TEXTS[0])["input_ids"] == reference(TEXTS[0])["input_ids"]
    rows = reference(TEXTS)["input_ids"]
    for skips in (True, False):
        assert folder_tokenizer.batch_decode(rows, skips) == reference.batch_decode(rows, skips)
    assert folder_tokenizer.convert_ids_to_tokens([1, 3]) == reference.convert_ids_to_tokens([1, 3])
    assert folder_tokenizer.convert_tokens_to_ids("no such token") == reference.convert_tokens_to_ids("no such token")


def test_a_missing_or_broken_file_is_named(tiny_tokenizer, tmp_path):
    with pytest.raises(PyTorchNeeded, match=r"no tokenizer\.json, so its tokenizer needs PyTorch and transformers"):
        FolderTokenizer(tmp_path)
    tiny_tokenizer.save_pretrained(tmp_path)
    (tmp_path / "tokenizer.json").write_text("{}", encoding="utf-8")
    with pytest.raises(ValueError, match=r"tokenizer\.json: cannot be read: "):
        FolderTokenizer(tmp_path)
