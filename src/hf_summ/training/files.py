"""`write_atomically` under the name that `hf_summ.experiments` imports it by."""

from hf_summ.common.files import write_atomically

__all__ = ["write_atomically"]
