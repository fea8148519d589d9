"""Actions of authors, without the words before them that refer to another sentence.

"We take advantage of this fact to show that ranks are fair." becomes "We show that ranks are fair." The opening of a
sentence is what it says before the action: here "take advantage of this fact". The action's subject is not part of it.
"""

import re
from collections.abc import Iterator

# the word for a text in the text itself
PAPER = r"(?:paper|work|article|study|letter|note|thesis|report|survey|manuscript|perspective)"
# words that refer to another sentence
REFERENCE = (
    rf"\b(?:this|these|those|such) (?!{PAPER}|as\b|that\b|of\b|who\b|an?\b)[a-z]"
    r"|\bsuch an? (?!way|manner|fashion|case)|\bsaid [a-z]|\\cite\b"
    r"|\bthe (?:former|latter|above|aforementioned)\b"
    r"|\bboth (?:problems|approaches|methods|issues|challenges|tasks|settings|cases)\b"
)
_REFERENCE = re.compile(REFERENCE, re.I)
# the same, or a pronoun without a noun, as in "We use this to show" and "This allows us to show"
_REFERENCE_OF_OPENING = re.compile(
    rf"{REFERENCE}|\b(?:this|these|those|them|it)(?: (?:and|by|to)\b|,|$)|^(?:This|It) ", re.I
)

# verbs of what authors do
_VERBS = (
    "adapt add adopt analyse analyze apply argue augment build cast characterize collect combine compare compute"
    " conduct consider construct create decompose define demonstrate derive describe design develop devise employ"
    " encode establish estimate evaluate examine explain exploit explore extend find formulate generalize generate"
    " give highlight identify improve incorporate infer integrate introduce investigate learn leverage model"
    " obtain offer optimize perform predict present propose prove provide release replace report represent reveal"
    " select show study suggest train treat use utilize view"
).split()
_BASE_FORMS = "|".join(_VERBS)
# forms of the verbs that say what is new
_FINITE_FORMS = (
    r"(?:argue|demonstrate|derive|describe|devise|evaluate|formulate|introduce|investigate|propose|prove|provide)[ds]?"
    r"|(?:build|construct|design|develop|find|obtain|present|report|show|train)(?:s|ed)?|establish(?:es|ed)?"
    r"|identif(?:y|ies|ied)|gives?|gave|found|built"
)
# verbs whose subject also does what follows "to"; in "We allow users to vote", users vote
_VERBS_OF_USE = (
    "adapt(?:ed)?|adopt(?:ed)?|apply|applied|build|built|combined?|conduct(?:ed)?|draw|drew|employ(?:ed)?|exploit(?:ed)?"
    "|extend(?:ed)?|generalized?|leveraged?|make|made|modify|modified|rely|relied|study|studied|take|took|used?"
    "|utilized?"
)


def _gerund(verb: str) -> str:
    """The gerund of a verb whose last consonant is not doubled, such as "proposing"."""
    return f"{verb.removesuffix('e')}ing"


def _third_person(verb: str) -> str:
    """The form of a verb after "This paper", such as "proposes"."""
    if verb.endswith("y") and not verb.endswith(("ay", "ey", "oy")):
        return f"{verb.removesuffix('y')}ies"
    if verb.endswith("sh"):
        return f"{verb}es"
    return f"{verb}s"


_GERUNDS = {_gerund(verb): verb for verb in _VERBS}
_GERUNDS["inferring"] = "infer"

_SUBJECT = rf"(?P<subject>We|I|This {PAPER})"
_ADVERB = r"(?:(?:then|thus|also|further|hence|\w+ly) )?"
# sentences that consist of an opening and an action
_PATTERNS = (
    # "We lift these limitations and propose a rank"
    rf"{_SUBJECT} (?P<opening>[^:;]{{3,200}}?),? and {_ADVERB}(?P<verb>{_FINITE_FORMS})"
    r" (?P<rest>(?:that|how|an?|the|our|two|new|novel|(?-i:[A-Z]))\b.*)",
    # "We use this insight to derive a rank"
    rf"(?P<subject>We|I) (?P<opening>(?:\w+ly )?(?:{_VERBS_OF_USE})\b(?:(?! that )[^:;,]){{3,120}}?) (?:in order )?to"
    rf" {_ADVERB}(?P<verb>{_BASE_FORMS}) (?P<rest>.*)",
    # "This allows us to derive a rank"
    rf"(?P<opening>(?:This|These|Such|It)\b[^:;,]{{3,100}}?) (?P<subject>us) (?:both )?to {_ADVERB}"
    rf"(?P<verb>{_BASE_FORMS}) (?P<rest>.*)",
    # "We close this gap by proposing a rank"
    rf"{_SUBJECT} (?P<opening>(?:(?! (?:that|how|whether) )[^:;]){{3,120}}?),? by"
    rf" {_ADVERB}(?P<verb>{'|'.join(_GERUNDS)}) (?P<rest>.*)",
    # "We study this question, finding that ranks are fair"
    rf"{_SUBJECT} (?P<opening>[^:;]{{3,160}}?), (?:and )?(?:thereby |thus )?"
    r"(?P<verb>finding|showing|demonstrating|proving|proposing|introducing|establishing|revealing) (?P<rest>.*)",
)
_SENTENCES_WITH_OPENING = [re.compile(f"^{pattern}$") for pattern in _PATTERNS]
# words of an opening that deny the action, as in "This does not allow us to derive a rank"
_DENIAL = re.compile(r"\b(?:not|cannot|never|fails?|failed|unable|prevents?|prevented|remains)\b|n['’]t\b")
# what an action must not have: a pronoun for a word of the opening, or the second part of a list that begins there
_INCOMPLETE = re.compile(
    r"^(?:\S+ ){0,4}(?:its?|they|their|them|the two|all three)\b|\band (?:to|\w+ing)\b|\bbut also\b"
)
# the least number of words of an action
_MIN_WORDS = 8


def actions_of(sentence: str) -> Iterator[str]:
    """The actions of a sentence's authors, each as a sentence, if the opening refers to another sentence.

    Args:
        sentence: a sentence with its capital and its end mark.
    """
    for pattern in _SENTENCES_WITH_OPENING:
        match = pattern.match(sentence)
        if match is None:
            continue
        opening, subject, verb, rest = match["opening"], match["subject"], match["verb"], match["rest"]
        if not _REFERENCE_OF_OPENING.search(opening) or _DENIAL.search(opening):
            continue
        if subject == "us":
            subject = "We"
        is_first_person = subject in ("We", "I")
        if is_first_person and verb.endswith("s"):
            # in "We show that a rank is fair and proves a bound", the rank is the verb's subject
            continue
        if verb in _GERUNDS:
            verb = _GERUNDS[verb] if is_first_person else _third_person(_GERUNDS[verb])
        action = f"{subject} {verb} {rest}"
        is_complete = not _REFERENCE.search(action) and not _INCOMPLETE.search(rest)
        if is_complete and len(action.split()) >= _MIN_WORDS:
            yield action
