"""Helpers for every package but `models`; they import nothing else of hf_summ."""
