"""Longest common subsequences by dynamic programming with a full table."""

from itertools import product

import numpy as np


def lcs_table(model: list, peer: list) -> np.ndarray:
    """Length of the LCS of each pair of beginnings, (len(model) + 1, len(peer) + 1)."""
    table = np.zeros((len(model) + 1, len(peer) + 1), dtype=int)
    for i, j in product(range(1, len(model) + 1), range(1, len(peer) + 1)):
        same = model[i - 1] == peer[j - 1]
        table[i, j] = table[i - 1, j - 1] + 1 if same else max(table[i - 1, j], table[i, j - 1])
    return table


def naive_lcs(model: list, peer: list) -> set[int]:
    """Places of `model` on the LCS that ROUGE-1.5.5 traces: diagonal at equal words, else up, else left."""
    table = lcs_table(model, peer)
    places, i, j = set(), len(model), len(peer)
    while i and j:
        if model[i - 1] == peer[j - 1]:
            i, j = i - 1, j - 1
            places.add(i)
        elif table[i - 1, j] >= table[i, j - 1]:
            i -= 1
        else:
            j -= 1
    return places
