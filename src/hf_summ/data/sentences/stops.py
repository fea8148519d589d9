"""Marks that end sentences, in regular expressions. Such a mark is called a stop."""

import re

# The stops of scripts without spaces between sentences, such as Chinese and Tibetan, for a character class.
UNSPACED_STOPS = "。！？។៕။།༎"
# All stops of one character outside ASCII, for a character class.
OTHER_STOPS = f"।॥؟۔։።፧{UNSPACED_STOPS}"
# A stop of any script. Amharic is often typed with two separators of words in place of its stop.
STOP = f"(?:[.!?{OTHER_STOPS}]|፡፡)"
# A stop with the closing marks after it and a space, such as .) or ?" before a space.
INNER_STOP = re.compile(r"""[.!?][”"’')\]]*\s""")
# The number of characters before and after a stop that the rules read to decide whether a sentence ends there.
NEAR = 100
