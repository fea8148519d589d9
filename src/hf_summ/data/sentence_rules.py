"""The former place of the marks that end sentences."""

from hf_summ.data.sentences.stops import STOP, UNSPACED_STOPS

__all__ = ["STOP", "UNSPACED_STOPS"]
