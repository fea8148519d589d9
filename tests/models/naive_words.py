"""The words that a tokenizer's token strings spell, read one token at a time."""


def byte_level_words(tokens):
    """The words that token strings spell: parted at spaces, and where kinds of characters meet."""
    words, opens = [], True
    for token in tokens:
        text = token.removeprefix("Ġ")
        if text in ("", "Ċ"):
            opens = True
            continue
        if opens or token.startswith("Ġ") or _kind(words[-1]) != _kind(text):
            words.append(text)
        else:
            words[-1] += text
        opens = False
    return words


def word_piece_words(tokens):
    words = []
    for token in tokens:
        if words and token.startswith("##"):
            words[-1] += token[2:]
        else:
            words.append(token.removeprefix("##"))
    return words


def whole_words(tokens):
    return [token.removeprefix("▁") for token in tokens]


def _kind(text):
    if text.startswith("âĢľ"):
        return "other"
    if text[0].isdigit() and text[0].isascii():
        return "digit"
    # the byte-level alphabet writes bytes beyond ASCII as signs of Latin-1
    return "letter" if text[0].isalpha() or ord(text[0]) > 0xA0 else "other"
