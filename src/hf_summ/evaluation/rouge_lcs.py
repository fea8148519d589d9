"""Longest common subsequences of many pairs of texts at once, for ROUGE-L (Lin 2004).

A column of a pair's dynamic program is one integer whose bit i says that position i of the reference extends the LCS
(Hyyrö 2004). The script ROUGE-1.5.5 and rouge-score trace back diagonally at equal words, otherwise up where position i
adds nothing, otherwise left. So the next position visited in a column is the highest one below that extends the LCS or
is equal. An array holds the columns of many pairs; only references of more than 64 words need Python's integers.
"""

from collections.abc import Iterator

import numpy as np

# bits of an array's integers
_WIDTHS = (16, 32, 64)
# reference positions per array
_CELLS = 1 << 17
# up to so many pairs, one by one is faster than an array
_FEW = 8


def common_places(
    ids: np.ndarray, models: np.ndarray, peers: np.ndarray, traced: bool
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield numbers of pairs (n,) and flags of their references' positions, as many as the LCS is long, (n, width).

    Args:
        ids: the words of all sequences, (W,).
        models: start and number of words of each pair's reference, (2, N).
        peers: the same for the predictions.
        traced: whether the positions are those of the LCS that ROUGE-1.5.5 chooses.
    """
    # so that the windows of the last words are complete
    ids = np.pad(ids.astype(np.int32), (0, _WIDTHS[-1]))
    # pairs whose predictions have ended are the last columns
    order = np.argsort(-peers[1], kind="stable")
    widths = np.searchsorted(_WIDTHS, models[1, order])
    for place in range(len(_WIDTHS) + 1):
        group = order[widths == place]
        alone = place == len(_WIDTHS) or len(group) <= _FEW
        step = 1 if alone else _CELLS // _WIDTHS[place]
        for start in range(0, len(group), step):
            pairs = group[start : start + step]
            some = models[:, pairs], peers[:, pairs]
            if alone:
                model, peer = (ids[first : first + size].tolist() for ((first,), (size,)) in some)
                yield pairs, _matched_alone(model, peer, traced)
            else:
                yield pairs, _matched(ids, *some, _WIDTHS[place], traced)


def _matched(ids: np.ndarray, models: np.ndarray, peers: np.ndarray, width: int, traced: bool) -> np.ndarray:
    """The flags of pairs, the longest prediction first, in integers of `width` bits."""
    words = np.lib.stride_tricks.sliding_window_view(ids, width)[models[0]]
    everything = _bits(np.arange(width) < models[1, :, None])
    flat = everything.copy()
    columns = []
    running = np.searchsorted(-peers[1], -np.arange(peers[1].max()))
    for place, pairs in enumerate(running.tolist()):
        equal = _bits(words[:pairs] == ids[peers[0, :pairs] + place, None])
        common = flat[:pairs] & equal
        flat[:pairs] = (flat[:pairs] + common | flat[:pairs] - common) & everything[:pairs]
        if traced:
            columns.append((equal, everything[:pairs] ^ flat[:pairs]))
    matched = np.zeros_like(flat) if traced else everything ^ flat
    below = everything
    for equal, grows in reversed(columns):
        pairs = len(equal)
        visited = (equal | grows) & below[:pairs]
        # all bits up to the highest one
        for power in range(width.bit_length() - 1):
            visited |= visited >> (1 << power)
        match = (visited ^ visited >> 1) & equal
        matched[:pairs] |= match
        below[:pairs] = visited ^ match
    return np.unpackbits(matched.view(np.uint8), bitorder="little").reshape(-1, width)


def _bits(flags: np.ndarray) -> np.ndarray:
    """Integers of these bits, the lowest first: (N, width) -> (N,)."""
    return np.packbits(flags.ravel(), bitorder="little").view(f"u{flags.shape[1] // 8}")


def _matched_alone(model: list[int], peer: list[int], traced: bool) -> np.ndarray:
    """The flags of one pair of any length."""
    places: dict[int, int] = {}
    for place, word in enumerate(model):
        places[word] = places.get(word, 0) | 1 << place
    everything = (1 << len(model)) - 1
    flat, grows = everything, 0
    columns = []
    for word in peer:
        equal = places.get(word, 0)
        # otherwise the column equals the previous one
        if equal:
            common = flat & equal
            flat = (flat + common | flat - common) & everything
            grows = everything ^ flat
        if traced:
            columns.append((equal, grows))
    matched = 0 if traced else grows
    below = everything
    for equal, grows in reversed(columns):
        place = ((equal | grows) & below).bit_length()
        if not place:
            break
        below = (1 << place) - 1
        if equal >> place - 1 & 1:
            matched |= 1 << place - 1
            below >>= 1
    raw = np.frombuffer(matched.to_bytes(-(-len(model) // 8), "little"), np.uint8)
    return np.unpackbits(raw, bitorder="little")[None]
