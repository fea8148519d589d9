"""The sentences of a document that may be its summary: sentences, their shorter forms, and pairs.

A shorter form lacks an introduction, a bracket, an inserted clause, or the last clauses. A pair is one sentence that
says what the authors did and what they found, such as "We propose a rank and show that it is fair". Each is meant to be
a sentence itself. Texts in languages other than English mostly give whole sentences alone, as few of their words match
a pattern here.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, combinations, product

import numpy as np

from .text_acronyms import long_forms_of, with_long_forms
from .text_actions import PAPER, REFERENCE, actions_of
from .text_documents import DOCUMENT_SEPARATOR
from .text_repairs import MAX_READ, repaired_text
from .text_sentences import FIRST_ITEM, LATER_ITEM, capitalized, finished, sentences_of

# the least and the largest number of words of a candidate, and the largest one of a pair
_MIN_WORDS, _MAX_WORDS = 6, 50
_MAX_WORDS_OF_PAIR = 40
# clauses are cut only where they begin before this character
_MAX_CHARACTERS = 1000
# the least number of words of a form without its last clauses, as shorter ones say too little
_MIN_WORDS_LEFT = 14
# the largest number of candidates that a model scores
_MAX_CANDIDATES = 64
# the weights of the features of `features_of`, learned from choices of readers that saw no scores
FEATURE_WEIGHTS = (3.64, -0.24, -0.41, -0.51)

# adverbs that connect a sentence with the sentence before
_ADVERBS = (
    r"However|Here|Hence|Thus|Therefore|Specifically|(?:More )?(?:precisely|specifically|importantly|generally)"
    r"|In particular|Finally|Lastly|Moreover|Furthermore|Additionally|In addition|Next|Then|First(?:ly)?|Second(?:ly)?"
    r"|Third(?:ly)?|Consequently|Accordingly|Instead|Interestingly|Importantly|Notably|Overall|In summary|In short"
    r"|In essence|In fact|As such|As a result|In conclusion|To conclude|Also|Besides|In contrast|Concretely"
)
# the beginning of a purpose that refers to the sentence before: "to address this" of "to address this problem"
_PURPOSE = (
    r"(?:to|in order to) (?:\w+ly )?(?:address|alleviate|overcome|solve|tackle|mitigate|remedy|resolve|fill|bridge"
    r"|close|achieve|combat|handle|answer) (?:(?:both|all|each) (?:of )?)?"
    r"(?:this|these|those|such|it|them|that|the above)\b"
)
# opening phrases that name the paper, or a purpose or reason in the sentence before
_OPENING_PHRASES = (
    r"T(?:o|owards) th(?:is|at|ese) (?:end|aim|goal|extent)s?|To do (?:so|this)|For this purpose|With this in mind"
    rf"|{_PURPOSE}(?:(?! (?:we|I)\b)[^,]){{0,80}}"
    r"|(?:Motivated|Inspired) by (?:this|these)(?:(?! (?:we|I)\b)[^,]){0,80}"
    rf"|In (?:this|the present|the current|our) (?:{PAPER}|contribution)"
    r"|Based on (?:this|these|the|our) (?:observation|insight|finding|analysis|idea|result)s?"
)
# words at the beginning that connect a sentence with the sentence before, or name the paper
_OPENING = re.compile(
    rf"^(?:(?:{_ADVERBS}|{_OPENING_PHRASES}),\s+"
    rf"|(?:{_OPENING_PHRASES}|Here|Thus|Hence|Therefore|Then|Finally) (?=we\b|I\b|it\b))+",
    re.I,
)
# a purpose that refers to the sentence before, at the end of a sentence
_LAST_PURPOSE = re.compile(rf",?\s+{_PURPOSE}(?: \w+){{0,2}}(?=\.$)")
# words whose meaning needs the purpose after them, as in "is able to solve it"
_NEEDS_PURPOSE = re.compile(
    r"\b(?:aims?|attempts?|begins?|seeks?|try|tries|fails?|helps?|needs?|needed|expected|proposed|shown|used|able|capable"
    r"|possible|hard|difficult|easy|important|necessary|crucial|suited|enough|how|ways?|approach|[a-z]+ed)$"
)
# an adverb of conclusion after the subject
_CONCLUSION = re.compile(r"^(We|I) (?:therefore|thus|hence|hereby|consequently) ")
# the comma between an introduction and the main clause, as in "Based on kernels, we ..."
_MAIN_CLAUSE = re.compile(rf",\s+(?=(?:we(?! \w+,)|I|this {PAPER}|our (?:method|model|approach|work))\b)")
# an introduction that is a condition, without which the main clause would be false
_CONDITION = re.compile(
    r"(?:^|,\s+|\bthat )(?:if|when|whenever|given|assuming|unless|under|for|let|until|only|even|with|without|once"
    r"|provided|at|in (?:the|an?))\b",
    re.I,
)
# verbs that say what is new in a paper
_CONTRIBUTIONS = "propos|introduc|present|develop|design|deriv|show|prov|find|demonstrat|giv|establish|construct|releas"
# the comma before a further main clause that says what is new
_FURTHER_CLAUSE = re.compile(rf"[,;]\s+(?:and|so|thus|hence)\s+(?=(?:we|I) (?:\w+ly )?(?:{_CONTRIBUTIONS}))")
# a sentence that begins with its subject has no introduction
_SUBJECT = re.compile(rf"(?:We|I|This {PAPER}|Our)\b")

# a bracket with words, after a space; it is needed if a preposition or article precedes it, or if it is the label of an
# item or a condition
_BRACKET = re.compile(
    r"(?<!\bof)(?<!\bin)(?<!\bby)(?<!\bto)(?<!\bor)(?<!\band)(?<!\bthe)(?<!\bis)\s+"
    r"\((?!(?:[ivx]+|[a-h])\)|(?:up to|if|when|unless|under|assuming|except|but|not|without)\b)"
    r"(?=[^()]*[a-zA-Z])[^()]*\)(?![\w-])"
)
# a clause between commas that stands before the sentence's verb
_INSERTION = re.compile(
    r",\s+(?:which|where|who|called|termed|named|such as|including|namely|based on|inspired by)\b"
    r"[^,;()]{3,120},\s+(?=(?:is|are|was|were|has|have|can|could|may|might|will|does|do|we)\b)"
)
# words with which a last clause begins after a comma
_CLAUSES_AFTER_COMMA = (
    r"which|where|whereas|while|allowing|leading|enabling|resulting|thus|thereby|making|achieving|outperforming"
    r"|yielding|showing|demonstrating|suggesting|improving|reducing|extending|generali[sz]ing|strengthening|answering"
    r"|confirming|giving|creating|offering|revealing|indicating|ensuring|highlighting|exploiting|leveraging|so that"
    r"|such that|as well as|including|such as"
    r"|in which|in order to|namely|especially|particularly|even|but(?! (?:only|not)\b)|with(?! the exception\b)|by"
    r"|using|based on|as(?! (?:long|soon|far) as\b| \$)"
    r"|and (?:we|it|they|is|are|has|have|can|then|also|shows?|demonstrates?|evaluate|provide|prove|find|present|propose"
    r"|achieve|outperforms?|that|hence|thus|therefore|the|this|our)"
)
# words with which a last clause begins without a comma
_CLAUSES = (
    r"and (?:show|demonstrate|prove|find|evaluate|validate|verify) that|in order to|so that|by [a-z]+ing"
    r"|while [a-z]+ing|thereby|because|even when|even if"
)
# words with which a last clause begins after " - ", which may also be a minus, a range or a compound
_CLAUSES_AFTER_DASH = (
    r"an?|the|its|our|both|including|such as|especially|even|i\.e|and|but|yet|which|where|with|without|by|in|along"
    r"|together|[a-z]{3,}ing"
)
# the place before a last clause
_CUT = re.compile(
    rf",\s+(?=(?:{_CLAUSES_AFTER_COMMA})\b)|\s*;\s|\s+(?:[–—]|-{{2,3}})\s+|\s+-\s+(?=(?:{_CLAUSES_AFTER_DASH})\b)"
    rf"|:\s+(?=[a-zA-Z(])|\s+(?=(?:{_CLAUSES})\b)"
)
# a number before a colon announces a list, and "not only" a contrast, whose ends must not go
_ANNOUNCED_LIST = re.compile(
    r"\b(?:two|three|four|five|six|several|both|following|follows|as|\d+)\b[^:]*:."
    r"|\bnot (?:only|just|merely)\b(?!.*\bbut\b)"
)
# words with which a sentence must not end
_OPEN_END = re.compile(
    r"\b(?:a|an|the|of|in|by|to|for|and|or|as|with|that|which|following|follows|followed|two|three|four|five|is|are|be|not"
    r"|only|just|simply|merely|mainly|partly|both|either|but|because|called|named|termed|claimed|e\.g\.?|i\.e\.?"
    r"|the following(?: [\w-]+){1,3})$"
)
# a verb, or a beginning that is common to the forms of a verb
_VERB = re.compile(
    r"\b(?:is|are|was|were|has|have|had|can|could|may|might|will|would|must|should|does|do|did|(?:[Ww]e|I) \w+"
    r"|(?:propos|introduc|provid|describ|analy[sz]|explor|improv|achiev|outperform|requir|demonstrat|evaluat|investigat"
    r"|generaliz|combin|enabl|reduc|increas|decreas|suggest|reveal|prov|show|present|develop|stud[iy]|allow|yield|lead"
    r"|aim|mak|give|tak|giv|follow|remain|depend|extend|consist|establish|exhibit|appl[iy]|report|find|obtain)"
    r"(?:e|e?s)?|uses?)\b"
)
# words with which a subordinate clause or an introduction begins
_SUBORDINATE = re.compile(
    r"(?:While|Whilst|Although|Though|If|When|Since|Because|As|Given|Despite|Unlike|Whereas|By|Using|For|With|To|In|On"
    r"|At|From|Under|Through|Based|After|Before|During|Compared|Contrary|Assuming|\w+ing|\w+ed)\b"
)
# beginnings of sentences that cannot be understood without the sentence before
_NEEDS_CONTEXT = re.compile(
    r"(?:It|Its|They|Their|These|Those|That|Both|He|She|Such|But|And|Yet|So|Or|For example|On the other hand|Otherwise"
    r"|Similarly|Conversely|Unfortunately|Nevertheless|Nonetheless|Indeed|Rather)\b"
    rf"|This (?!{PAPER}|tutorial|research|chapter|review)"
    r"|We (?:also|then|further|furthermore|first|finally|additionally|next)\b"
    r"|We (?:call|term|name|denote|refer to) (?:it|this|them)\b"
)

# beginnings of sentences that name a topic, and do not say what was found
_TOPIC = re.compile(
    rf"(?:We|I|This {PAPER}|The (?:paper|authors)) (?:\w+ly )?(?:stud(?:y|ies)|considers?|address(?:es)?|reviews?"
    r"|tackles?|examines?|discuss(?:es)?|focus(?:es)?|revisits?|are interested)\b"
)
# words that refer to other sentences, and notices of published code
_REFERENCE = re.compile(rf"{REFERENCE}|\bgithub\b|https?:|\bcode (?:is|will)\b", re.I)

# verbs that do not say what the authors did
_WEAK_VERBS = r"are|were|have|had|do|did|can|may|will|would|call|term|name|denote|refer|let|hope|believe|note|start"
# the beginning of a sentence that may be the first part of a pair
_FIRST_PART = re.compile(
    rf"(?:We|I) (?:\w+ly )?+(?!(?:{_WEAK_VERBS})\b)\w+|(?:This {PAPER}|The (?:authors|paper)) (?:\w+ly )?\w+s\b"
)
# the beginning of a second part whose subject is the authors
_AUTHORS_ACT = re.compile(
    r"(?P<subject>We|I) (?:(?:also|then|further|furthermore|finally|additionally|next|thus|therefore|hence) )?+"
    rf"(?!(?:{_WEAK_VERBS})\b)(?=\w)"
)
# the beginning of a second part with another subject
_SECOND_PART = re.compile(r"(?:Our|Experiments|(?:Experimental|Extensive|Empirical|Numerical) \w+|Results)\b")
# the beginning of a second part that must directly follow the first part, as its subject refers to it
_SECOND_PART_OF_NEIGHBOR = re.compile(
    r"(?:It|They|(?:The|This) (?:(?:proposed|resulting) )?(?:method|approach|model|algorithm|framework|technique|system"
    r"|network|architecture|formulation|representation|objective|loss))\b"
)
# a part in which the authors did something in the past
_PAST = re.compile(
    r"(?:We|I) (?:\w+ly |also |then |further |finally |next )*(?!(?:need|proceed|succeed|exceed)\b)"
    r"(?:\w+ed|found|made|built|showed|took|gave|ran|chose|sought|drew|saw)\b"
)
# "also" after the subject of a second part, as in "Our experiments also show"
_ALSO = re.compile(r"^((?:\w+ )?\w+) also ")
# a name, such as "BERT" or "YellowFin"
_NAME = re.compile(r"\w+[A-Z][\w-]*")
_WORD = re.compile(r"[\w-]+")
# the words that arXiv's pages have in place of a link, where the words around it may be lost
_LOST_LINK = re.compile(r"\bthis https? URL\b")
# what a part of a pair must not have: clauses that take no further one, items of a list, notices of published code,
# and lost links
_NO_PART = re.compile(
    rf"[;:?!–—]|--|\s-\s|\([a-z]\)|\b(?:first|second|third|code|released|available)\b|{_LOST_LINK.pattern}", re.I
)

# a word of at least four letters, as shorter ones are mostly function words
_LONG_WORD = re.compile(r"[^\W\d_][\w-]{3,}")
# words for the authors and their paper
_AUTHORS = re.compile(rf"\b(?:[Ww]e|[Oo]ur|I|[Tt]his {PAPER}|[Tt]he (?:authors|paper))\b")


def _has_few_words(sentence: str) -> bool:
    return len(sentence.split()) <= _MAX_WORDS


class _ReadDocument:
    """A document whose sentences may be the summary.

    Attributes:
        text: the document, repaired.
        sentences: its sentences, at least one.
        forms: the suitable forms of each sentence.
        long_forms: the long forms of its acronyms.
    """

    def __init__(self, text: str):
        self.text = repaired_text(text)
        # a blank text has no sentence
        self.sentences = sentences_of(self.text) or [finished(self.text)]
        if len(text.strip()) > MAX_READ and len(self.sentences) > 1:
            # the last sentence mostly ends within a word
            self.sentences.pop()
        self.forms = [_suitable_forms(sentence) for sentence in self.sentences]
        self.long_forms = long_forms_of(self.text)

    def all_forms(self) -> list[str]:
        """The forms of all sentences."""
        return list(chain.from_iterable(self.forms))


def sentence_candidates(
    document: str | Sequence[str], fits: Callable[[str], bool] = _has_few_words
) -> dict[str, float]:
    """The sentences of a document, their shorter forms and their pairs, each with its merit.

    The merit is the sum of a sentence's features, weighted by `FEATURE_WEIGHTS`. The model's score of a candidate is
    added to it: the mean log-probability of the candidate's tokens.

    Each candidate has an end mark, has no line break, and begins with a capital or a name such as "iPhone". An
    acronym that the document explains elsewhere is spelled out. If no sentence has a suitable length and closed
    brackets, all are given. Of a document with more than `MAX_READ` characters, the sentence in which the limit falls
    is left out.

    Args:
        document: a text, or several documents of one example. Each document then gives candidates of its own in turn.
            A sentence is not paired with one of another document, nor are acronyms spelled out as in another one.
        fits: whether a sentence is short enough. Acronyms are spelled out only in sentences that fit.
    """
    texts = [document] if isinstance(document, str) else document
    texts = [text for text in texts if text.strip()]
    documents = [_ReadDocument(text) for text in texts or [""]]
    forms = []
    for read_document in documents:
        forms.extend(read_document.all_forms())
    preferred = set(_preferred(forms))
    streams = []
    for read_document in documents:
        singles = [form for form in read_document.all_forms() if form in preferred]
        if not preferred:
            singles = read_document.sentences
        # a long text has thousands of pairs, of which only the first ones are made
        streams.append(chain(singles, _pairs(read_document.forms)))
    candidates = []
    for sentence, index in _first_distinct(streams, _MAX_CANDIDATES).items():
        candidates.append(_spelled_out(sentence, documents[index].long_forms, fits))
    joined_text = DOCUMENT_SEPARATOR.join([read_document.text for read_document in documents])
    merits = features_of(candidates, joined_text) @ np.array(FEATURE_WEIGHTS)
    return dict(zip(candidates, merits.tolist(), strict=True))


def features_of(sentences: Sequence[str], text: str) -> np.ndarray:
    """The features of each sentence as the summary of a text.

    1. Coverage: the share of the text's words that the sentence contains. Words of up to three letters do not count.
    2. Topic: whether the sentence begins with a topic, as in "We study ...".
    3. Reference: whether it refers to other sentences or to published code.
    4. Background: whether it names neither the authors nor their paper.

    Args:
        sentences: the N candidates.
        text: the document.

    Returns:
        (N, 4), from 0 to 1; the last three features are 0 or 1.
    """
    counts = Counter(_LONG_WORD.findall(text.lower()))
    number_of_words = max(1, counts.total())
    features = np.zeros((len(sentences), len(FEATURE_WEIGHTS)))
    for row, sentence in zip(features, sentences, strict=True):
        covered_words = sum(counts[word] for word in set(_LONG_WORD.findall(sentence.lower())))
        coverage = covered_words / number_of_words
        begins_with_topic = _TOPIC.match(sentence) is not None
        has_reference = _REFERENCE.search(sentence) is not None
        is_background = _AUTHORS.search(sentence) is None
        row[:] = (coverage, begins_with_topic, has_reference, is_background)
    return features


def _preferred(forms: list[str]) -> list[str]:
    """The forms that lack no words at a link, and that can be understood without the sentence before.

    If no remaining form meets a condition, that condition is ignored.
    """
    whole = [form for form in forms if not _LOST_LINK.search(form)]
    if not whole:
        whole = forms
    self_contained = [form for form in whole if not _NEEDS_CONTEXT.match(form)]
    if not self_contained:
        return whole
    return self_contained


def _first_distinct(streams: Sequence[Iterable[str]], number: int) -> dict[str, int]:
    """The first texts of several streams that differ from those before, at most `number`. No text after them is read.

    The streams are read in turn, one text of each, so that a long one leaves room for the others.

    Returns:
        The texts, each with the index of the stream that gave it first.
    """
    distinct: dict[str, int] = {}
    unfinished = {index: iter(stream) for index, stream in enumerate(streams)}
    while unfinished:
        for index, stream in list(unfinished.items()):
            text = next(stream, None)
            if text is None:
                del unfinished[index]
                continue
            distinct.setdefault(text, index)
            if len(distinct) == number:
                return distinct
    return distinct


def _spelled_out(sentence: str, long_forms: dict[str, str], fits: Callable[[str], bool]) -> str:
    """A sentence whose acronyms are spelled out; the sentence itself if it would then be too long.

    Args:
        long_forms: the long forms of the text's acronyms.
        fits: whether a sentence is short enough.
    """
    spelled_out = with_long_forms(sentence, long_forms)
    if spelled_out != sentence and not fits(spelled_out):
        return sentence
    return spelled_out


def _suitable_forms(sentence: str) -> list[str]:
    """A sentence and its shorter forms that have a suitable length and leave no bracket or formula open."""
    forms = []
    for form in _forms(sentence):
        candidate = finished(form)
        words = len(candidate.split())
        if _MIN_WORDS <= words <= _MAX_WORDS and _is_closed(candidate):
            forms.append(candidate)
    # a dictionary keeps the first of equal ones, in their order
    return list(dict.fromkeys(forms))


def _pairs(forms: Sequence[Sequence[str]]) -> Iterator[str]:
    """The pairs of two sentences of a text.

    Args:
        forms: the forms of each sentence, in the order of the text.
    """
    # the parts that each sentence gives, with the sentence's index; most sentences of some texts give none
    parts = []
    for index, forms_of_sentence in enumerate(forms):
        parts_of_sentence = [form for form in forms_of_sentence if form.endswith(".") and not _NO_PART.search(form)]
        if parts_of_sentence:
            parts.append((index, parts_of_sentence))
    for (first_index, first_parts), (second_index, second_parts) in combinations(parts, 2):
        are_neighbors = second_index == first_index + 1
        for first, second in product(first_parts, second_parts):
            pair = _pair(first, second, are_neighbors)
            if pair is not None and len(pair.split()) <= _MAX_WORDS_OF_PAIR:
                yield pair


def _pair(first: str, second: str, are_neighbors: bool) -> str | None:
    """Two sentences as one, such as "We propose a rank and show that it is fair", or None if they do not fit.

    Args:
        first: a sentence of a text, which ends with a period.
        second: a later sentence.
        are_neighbors: whether no sentence stands between them, so that "this method" in the second one is clear.
    """
    needs_neighbor = _SECOND_PART_OF_NEIGHBOR.match(second) or _REFERENCE.search(second)
    if not _FIRST_PART.match(first) or _NEEDS_CONTEXT.match(first) or (needs_neighbor and not are_neighbors):
        return None
    beginning = first.removesuffix(".")
    comma = "," if "," in beginning or " and " in beginning else ""
    name = _NAME.match(second)
    if are_neighbors and name is not None and name.group() in _WORD.findall(first):
        return f"{beginning}, and {second}"
    action = _AUTHORS_ACT.match(second)
    if action is None:
        if _SECOND_PART.match(second) or _SECOND_PART_OF_NEIGHBOR.match(second):
            clause = _ALSO.sub(r"\1 ", second)
            return f"{beginning}, and {clause[0].lower()}{clause[1:]}"
        return None
    predicate = second[action.end() :]
    subject = action["subject"].replace("We", "we")
    has_one_tense = bool(_PAST.match(first)) == bool(_PAST.match(second))
    if first.startswith(("We ", "I ")) and has_one_tense:
        return f"{beginning}{comma} and {predicate}"
    return f"{beginning}, and {subject} {predicate}"


def _forms(sentence: str) -> Iterator[str]:
    """A sentence without words that refer to the sentence before, and its shorter forms; some may be equal."""
    sentence = _CONCLUSION.sub(r"\1 ", capitalized(_OPENING.sub("", sentence)))
    purpose = _LAST_PURPOSE.search(sentence)
    if purpose is not None:
        before = sentence[: purpose.start()]
        if not _NEEDS_PURPOSE.search(before) and not _OPEN_END.search(before):
            sentence = f"{before}."
    for main_form in _with_main_clause(sentence):
        for form in (main_form, _BRACKET.sub("", main_form)):
            for complete_form in (form, _without_insertion(form)):
                yield complete_form
                yield from _without_last_clauses(complete_form)


def _without_insertion(sentence: str) -> str:
    """A sentence without a clause between its subject, or an introduction, and its verb."""
    insertion = _INSERTION.search(sentence)
    if insertion is None:
        return sentence
    before, after = sentence[: insertion.start()], sentence[insertion.end() :]
    if after.startswith("we "):
        return f"{before}, {after}"
    # if the clause has its verb already, the verb after the insertion is a verb of the insertion
    clauses = re.split(r"\bthat\b|\band\b|,", before)
    if _VERB.search(clauses[-1]):
        return sentence
    return f"{before} {after}"


def _with_main_clause(sentence: str) -> Iterator[str]:
    """A sentence, and its main clause or action alone if an introduction or another clause precedes it."""
    yield sentence
    yield from actions_of(sentence)
    commas = [_FURTHER_CLAUSE.search(sentence)]
    if not _SUBJECT.match(sentence):
        commas.append(_MAIN_CLAUSE.search(sentence))
    for comma in commas:
        if comma is not None and not _CONDITION.search(sentence, 0, comma.start()):
            clause = capitalized(sentence[comma.end() :])
            yield clause
            yield from actions_of(clause)


def _without_last_clauses(sentence: str) -> Iterator[str]:
    """The beginnings of a sentence that are sentences themselves."""
    # the words before the main clause cannot stand alone
    start = sentence.find(",") + 1 if _SUBORDINATE.match(sentence) else 0
    for cut in _CUT.finditer(sentence, start, _MAX_CHARACTERS):
        form = sentence[: cut.start()]
        if len(form[start:].split()) < _MIN_WORDS_LEFT:
            continue
        # "a, b, and c" is not cut before its last item
        is_list = sentence.startswith("and ", cut.end()) and "," in form[start:]
        lacks_items = FIRST_ITEM.search(form) and LATER_ITEM.search(sentence, cut.end())
        if is_list or lacks_items or _OPEN_END.search(form) or _ANNOUNCED_LIST.search(form):
            continue
        # a clause after "that" needs a verb of its own, which the cut may have removed
        parts = re.split(r"\bthat\b", form[start:])
        if _VERB.search(parts[-1]):
            yield form


def _is_closed(text: str) -> bool:
    """Whether all brackets, quotation marks and formulas of a text are closed."""
    for opening, closing in (("(", ")"), ("[", "]"), ("{", "}"), ("“", "”")):
        if text.count(opening) != text.count(closing):
            return False
    return text.count("$") % 2 == 0 and text.count('"') % 2 == 0
