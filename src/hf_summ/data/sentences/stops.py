"""Marks that end sentences."""

# Marks of scripts without spaces.
UNSPACED_STOPS = "。！？។៕။།༎"
# Any mark that ends a sentence. Amharic is often typed with two separators of words in place of its mark.
STOP = f"(?:[.!?।॥؟۔։።፧{UNSPACED_STOPS}]|፡፡)"
# A mark that ends a sentence, with closing marks after it and a space.
INNER_STOP = r"""[.!?][”"’')\]]*\s"""
# So many characters before and after a stop decide whether a sentence ends there.
NEAR = 100
