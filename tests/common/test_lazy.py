"""Libraries that may be missing."""

import json

import pytest

from hf_summ.common.lazy import import_extra


def test_an_extra_is_imported_or_named():
    assert import_extra("json", "JSON needs json", "json") is json
    with pytest.raises(ImportError, match=r"^BLEU needs sacrebleu: pip install 'hf-summ\[bleu\]'$"):
        import_extra("hf_summ.no_such_module", "BLEU needs sacrebleu", "bleu")
