"""Helpers for all packages except `models`; they import nothing else of hf_summ."""
