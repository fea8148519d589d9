"""Marks that end sentences."""

# marks of scripts without spaces
UNSPACED_STOPS = "。！？។៕။།༎"
# Amharic is often typed with two separators of words for its own mark
STOP = f"(?:[.!?।॥؟۔։።፧{UNSPACED_STOPS}]|፡፡)"
# an end of a sentence with closing marks, before space
INNER_STOP = r"""[.!?][”"’')\]]*\s"""
# characters beside a stop that decide whether a sentence ends there
NEAR = 100
