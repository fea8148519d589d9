"""The sentences of a text that may be its summary, and what speaks for or against them."""

import pytest

from hf_summ.models.text_candidates import FEATURE_WEIGHTS, features_of, sentence_candidates

ABSTRACT = (
    "Rivers carry sand to the sea. However, dams in the hills hold it back for many years. In this paper, we measure "
    "the sand behind 40 dams (Fig. 2), which were built before 1960, and show that beaches shrink [3, 4]. It is the "
    "first such study. Based on maps from the air, we estimate the loss of each beach by counting its grains."
)
# what a text gives, in order
CANDIDATES = {
    ABSTRACT: [
        "Rivers carry sand to the sea.",
        "Dams in the hills hold it back for many years.",
        "We measure the sand behind 40 dams (Fig. 2), which were built before 1960, and show that beaches shrink.",
        "We measure the sand behind 40 dams, which were built before 1960, and show that beaches shrink.",
        "Based on maps from the air, we estimate the loss of each beach by counting its grains.",
        "We estimate the loss of each beach by counting its grains.",
        "We measure the sand behind 40 dams (Fig. 2), which were built before 1960, and show that beaches shrink, and "
        "estimate the loss of each beach by counting its grains.",
        "We measure the sand behind 40 dams, which were built before 1960, and show that beaches shrink, and estimate "
        "the loss of each beach by counting its grains.",
    ],
    # lines wrapped in the middle of words, a heading in front, labels of parts
    "Sand and its rivers\n\nBACKGROUND: Rivers carry much sand\nto the sea. METHODS: We count the grains of forty "
    "bea-\nches by hand.": ["Rivers carry much sand to the sea.", "We count the grains of forty beaches by hand."],
    # marks of LaTeX, citations
    r"We prove that \emph{all} sand~\cite{a} moves {\em slowly} (Lopez et al., 2009) in rivers.": [
        "We prove that all sand moves slowly in rivers."
    ],
    # the period of an abbreviation ends no sentence; a condition stays
    "If sand is wet, e.g. after rain, we find that it moves by sliding. Models of Dr. Ana Lopez agree with this.": [
        "If sand is wet, e.g. after rain, we find that it moves by sliding.",
        "Models of Dr. Ana Lopez agree with this.",
    ],
    # a list keeps its items
    "We find two kinds of sand on beaches of the north and the south: fine sand, which dries, and wet sand.": [
        "We find two kinds of sand on beaches of the north and the south: fine sand, which dries, and wet sand.",
        "We find two kinds of sand on beaches of the north and the south.",
    ],
    # sentences that are items belong to the list, unless it does not begin within a sentence
    "We propose two new things: (1) A rank that needs no links, which is fair. (2) A map of sand. It is new.": [
        "We propose two new things: (1) A rank that needs no links, which is fair. (2) A map of sand."
    ],
    "(1) We propose a rank that needs no links. (2) We draw maps of all the sand.": [
        "(1) We propose a rank that needs no links.",
        "(2) We draw maps of all the sand.",
    ],
    "We find that (i) the sand of all the rivers on this coast is new and fine, and that (ii) ranks are old.": [
        "We find that (i) the sand of all the rivers on this coast is new and fine, and that (ii) ranks are old."
    ],
    # a link that arXiv left out took words with it
    "We propose a propagation of sand this http URL maps show it. We count the sand, this https URL goes on, by "
    "hand. We draw maps of all the sand.": ["We draw maps of all the sand."],
    "Our code for sand is at this https URL.": ["Our code for sand is at this https URL."],
    # a list keeps its end, a contrast its second half, and a verb its subject
    "We collect a large corpus of two million abstracts from the web, annotate a small sample, and propose a model.": [
        "We collect a large corpus of two million abstracts from the web, annotate a small sample, and propose a model."
    ],
    "Our method not only improves the accuracy of a parser on all of twelve languages, but also halves its cost.": [
        "Our method not only improves the accuracy of a parser on all of twelve languages, but also halves its cost."
    ],
    "We show that a classifier trained on states of frozen language models, which needs no labels, finds lies.": [
        "We show that a classifier trained on states of frozen language models, which needs no labels, finds lies."
    ],
    # a condition stays, also in brackets, and so do items and nouns that are cited
    "To address this issue we propose a rank, which learns an order. In the noiseless case, we recover all of it.": [
        "We propose a rank, which learns an order.",
        "In the noiseless case, we recover all of it.",
    ],
    "Our bound is tight (up to factors). We (i) fit it on $[0,1]$ as in the work of [1] and (ii) release all.": [
        "Our bound is tight (up to factors).",
        "We (i) fit it on $[0,1]$ as in the work of [1] and (ii) release all.",
    ],
    # a purpose at the end goes if it refers to the sentence before, and so does an adverb of conclusion
    "Old ranks of sand are unfair. We propose SandRank, which is a rank, to solve this old problem.": [
        "Old ranks of sand are unfair.",
        "We propose SandRank, which is a rank.",
    ],
    "We thus find that no rank of sand is able to solve it.": ["We find that no rank of sand is able to solve it."],
    "Our rank learns all of the question, not just to answer it.": [
        "Our rank learns all of the question, not just to answer it."
    ],
    # no form ends with "as well as"
    "We discuss many maps of the brain from a conceptual point of view as well as by running tasks.": [
        "We discuss many maps of the brain from a conceptual point of view as well as by running tasks."
    ],
    # " - " may be a minus, and cuts only before a clause
    "We show that each rank of all beaches on the coast needs at least n log n - 2n bits of memory.": [
        "We show that each rank of all beaches on the coast needs at least n log n - 2n bits of memory."
    ],
    "We show that each rank of all the beaches on this coast requires many days - a surprise for us.": [
        "We show that each rank of all the beaches on this coast requires many days - a surprise for us.",
        "We show that each rank of all the beaches on this coast requires many days.",
    ],
    # a sentence may end with a capital, but not with an initial
    "We measure the sand of rivers at 30 T. The maps of Dr. A. Lopez show many wide rivers.": [
        "We measure the sand of rivers at 30 T.",
        "The maps of Dr. A. Lopez show many wide rivers.",
    ],
    "We measure the sand of rivers as H_2^+. This sand is new.": ["We measure the sand of rivers as H_2^+."],
    # no form announces what was cut, or needs it
    "We find that the sand of all the rivers on this coast has the following properties: it is new.": [
        "We find that the sand of all the rivers on this coast has the following properties: it is new."
    ],
    "We propose SandRank, a new rank of all beaches on this coast, designed to solve these problems.": [
        "We propose SandRank, a new rank of all beaches on this coast, designed to solve these problems."
    ],
    # the verb that stays must be outside of the clause with "that"
    "Ranks of all the beaches on this coast that, in our view, sand needs, as well as rivers, are new.": [
        "Ranks of all the beaches on this coast that, in our view, sand needs, as well as rivers, are new."
    ],
    # an inserted clause goes, but neither the comma after an introduction nor a second verb stays alone
    "Using maps of sand, which come from the air, we count beaches.": [
        "Using maps of sand, which come from the air, we count beaches.",
        "Using maps of sand, we count beaches.",
    ],
    "The maps are based on sand, which comes from rivers, have many colors, and remain new.": [
        "The maps are based on sand, which comes from rivers, have many colors, and remain new."
    ],
    # a further main clause stands alone
    "This is written as a convex problem, and we propose a fast algorithm for all rivers.": [
        "We propose a fast algorithm for all rivers."
    ],
    # a negation is not left alone
    "We show that sand cannot move without strong winds or the help of many people.": [
        "We show that sand cannot move without strong winds or the help of many people."
    ],
    # German, a text without a whole sentence, and one of leaning sentences
    "Flüsse tragen viel Sand in das Meer. Wir zählen die Körner an vierzig Stränden.": [
        "Flüsse tragen viel Sand in das Meer.",
        "Wir zählen die Körner an vierzig Stränden.",
    ],
    "sand, rivers": ["Sand, rivers."],
    "...": ["..."],
    "Results:": ["Results."],
    "It moves the sand of many rivers.": ["It moves the sand of many rivers."],
}


# two sentences, and the pair that they give
PAIRS = {
    # the authors are the subject of both
    ("We propose a rank for sand.", "We also show that the rank is fair."): (
        "We propose a rank for sand and show that the rank is fair."
    ),
    ("We propose a rank, which is new.", "We then apply the rank to sand."): (
        "We propose a rank, which is new, and apply the rank to sand."
    ),
    ("This paper proposes a rank for sand.", "I show that the rank is fair."): (
        "This paper proposes a rank for sand, and I show that the rank is fair."
    ),
    # the subject is repeated where the tense changes
    ("We propose a rank for sand.", "We measured the rank in two days."): (
        "We propose a rank for sand, and we measured the rank in two days."
    ),
    ("We proposed a rank for sand.", "We then showed that it is fair."): (
        "We proposed a rank for sand and showed that it is fair."
    ),
    # the second subject is a result or the method
    ("We propose a rank for sand.", "Experiments show that the rank is fair."): (
        "We propose a rank for sand, and experiments show that the rank is fair."
    ),
    ("We propose a rank for sand.", "Our experiments also show that the rank is fair."): (
        "We propose a rank for sand, and our experiments show that the rank is fair."
    ),
    ("We propose a rank for sand.", "It is fair and needs two days."): (
        "We propose a rank for sand, and it is fair and needs two days."
    ),
    ("We propose a rank (SandRank) for sand.", "SandRank needs two days of work."): (
        "We propose a rank (SandRank) for sand, and SandRank needs two days of work."
    ),
    ("We propose a rank for sand.", "The method needs two days of work."): (
        "We propose a rank for sand, and the method needs two days of work."
    ),
}


# words and compounds that were split at the ends of lines, and what was meant
SPLIT_WORDS = {
    "We find implemen-\ntations of ranks.": "We find implementations of ranks.",
    "We find in- formation on ranks.": "We find information on ranks.",
    "We find pre- and post-war ranks.": "We find pre- and post-war ranks.",
    "We find low-\nresource and state-of-the-\nart ranks.": "We find low-resource and state-of-the-art ranks.",
    "We find energy-\nbased Actor-\nCritic ranks.": "We find energy-based Actor-Critic ranks.",
    "We find multi-\nple ranks. There are multiple ones.": "We find multiple ranks.",
    "We find key-\nvalue ranks. Key-value maps are old.": "We find key-value ranks.",
    "WE FIND IMPLEMEN-\nTATIONS OF RANKS.": "We find implementations of ranks.",
    # charges of particles, and dashes
    "We find K- mesons and pi+ pi- gamma in e+\ne- ranks.": "We find K- mesons and pi+ pi- gamma in e+ e- ranks.",
    "We find SandRank- a new one- with high- from low-\nquality ranks.": "We find SandRank- a new one- with high- from "
    "low-quality ranks.",
    # compounds of short parts
    "We find Na-\nion, x-\nray, 3-\ndimensional ranks.": "We find Na-ion, x-ray, 3-dimensional ranks.",
    "We find decode-\nand-forward ranks.": "We find decode-and-forward ranks.",
    "Re-\ncently, nu- merical ranks.": "Recently, numerical ranks.",
}


@pytest.mark.parametrize("text", SPLIT_WORDS)
def test_split_words_are_joined(text):
    # a sentence has at least 6 words
    more = " ON SAND AND RIVERS." if text.isupper() else " on sand and rivers."
    text = text.replace("RANKS.", f"RANKS{more}").replace("ranks.", f"ranks{more}")
    sentence = SPLIT_WORDS[text.replace(more, ".")].replace("ranks.", "ranks on sand and rivers.")
    assert next(iter(sentence_candidates(text))) == sentence


# texts of two sentences
TEXTS_OF_TWO = [
    # the first one ends with a quotation, or with one period too many
    ('The readers call many ranks "quite new."', "The maps show the wide rivers."),
    ("The readers ask “who ranks all sand?”", "The maps show the wide rivers."),
    ("The ranks were found by Lopez et al..", "The maps show the wide rivers."),
    # the second one begins with a name in lower case, with a number, or with a bracket
    ("The readers like ranks of sand.", "xKV reduces the size of ranks."),
    ("The readers like ranks of sand.", "e5-omni combines the maps of rivers."),
    ("The readers like all such ranks.", "16 readers of sand like them most."),
    ("The readers like ranks of sand.", "[Results] The maps show the wide rivers."),
]


@pytest.mark.parametrize("sentences", TEXTS_OF_TWO, ids=str)
def test_ends_of_sentences_are_found(sentences):
    expected = [sentences[0].replace("..", "."), sentences[1].removeprefix("[Results] ")]
    assert list(sentence_candidates(" ".join(sentences))) == expected


# texts with labels, keywords or a heading, whose only sentence is `LABELED`
LABELED = "We propose a rank for the sand of rivers."
TEXTS_WITH_LABELS = [
    f"Results and Discussion: {LABELED}",
    f"Materials and Methods. {LABELED}",
    f"[Method:] {LABELED}",
    f"Context: {LABELED}",
    # a trace of lost quotation marks
    f"````````` {LABELED}",
    f"{LABELED} Keywords: sand, rivers, many ranks, old maps, dams.",
    f"{LABELED}\nIndex Terms-Sand, rivers, many ranks, old\nmaps, dams.",
    # a heading, before a long line or lines of a width
    f"A Simple Rank for Old Rivers\n{LABELED}",
    "A Simple Rank for Sand\nWe propose a rank for the sand\nof rivers.",
    # lines that are broken at their width
    "We propose a rank for\nthe sand of rivers.",
]


@pytest.mark.parametrize("text", TEXTS_WITH_LABELS)
def test_labels_keywords_and_headings_are_left_out(text):
    assert list(sentence_candidates(text)) == [LABELED]


# texts of one sentence whose first line, before a capital, is no heading
FIRST_LINES = [
    # it was broken at its width
    "The dams raise ranks for the old\nRiver Rhine, with its dams.",
    # it begins like a sentence, or ends within one
    "We propose a rank\nRhineRank, which learns from the sand of rivers.",
    "A rank for the sand of\nRiver Rhine is all that we propose to the reader.",
    # a dash after a word is no list of keywords
    "We study keywords. Keywords — short and noisy — are hard to rank for all.",
]


@pytest.mark.parametrize("text", FIRST_LINES)
def test_a_line_is_no_heading_if_its_sentence_goes_on(text):
    assert text.replace("\n", " ").split(". ")[-1] in sentence_candidates(text)


TEXTS_OF_ONE = [
    "We extend the rank of Prof. Lopez to maps of sand.",
    "We extend the rank of many rivers, viz. Rhine and Po.",
    "We extend the rank of Phys. Rev. Lett. 91 to maps of sand.",
    "We extend the rank in Fig. 16 to maps of sand.",
]


@pytest.mark.parametrize("text", TEXTS_OF_ONE)
def test_abbreviations_end_no_sentence(text):
    assert list(sentence_candidates(text)) == [text]


@pytest.mark.parametrize("sentences", PAIRS, ids=PAIRS.values())
def test_two_sentences_of_the_authors_give_a_pair(sentences):
    candidates = list(sentence_candidates(" ".join(sentences)))
    assert candidates[-1] == PAIRS[sentences]


TEXTS_WITHOUT_PAIRS = [
    # the first sentence does not say what the authors did, or the second one has another subject
    "Sand moves in all large rivers. We show that the rank is fair.",
    "We propose a rank for sand. Sand moves in all large rivers.",
    # a name of the method, and a reference, that stand too far from their sentence
    "We propose a rank for sand. Sand moves in all rivers. The method needs two days of work.",
    "We propose a rank for sand. Sand moves in all rivers. We show that this movement is slow.",
    # items of a list, two clauses, a notice of code
    "We propose a rank for sand. We show first that the rank is fair.",
    "We propose a rank for sand: it is new. We show that the rank is fair.",
    "We propose a rank for sand - it is new. We show that the rank is fair.",
    "We propose a rank for sand. Our code is open to all people.",
    # verbs that do not say what the authors did
    "We propose a rank for sand. We also call the rank a good one.",
    "We strongly believe in ranks of sand. We show that the rank is fair.",
]


@pytest.mark.parametrize("text", TEXTS_WITHOUT_PAIRS)
def test_sentences_that_do_not_fit_give_no_pair(text):
    for candidate in sentence_candidates(text):
        assert candidate in text


@pytest.mark.parametrize("text", CANDIDATES)
def test_candidates_of_a_text(text):
    assert list(sentence_candidates(text)) == CANDIDATES[text]


# a sentence, and its features besides the coverage: a topic alone, a reference, background
FEATURES = {
    "We study sand.": [1, 0, 0],
    "We show that these problems stay.": [0, 1, 0],
    "We spend said budget on such a rank.": [0, 1, 0],
    "Sand is in rivers.": [0, 0, 1],
    "We show that sand moves.": [0, 0, 0],
    "This paper shows that sand moves.": [0, 0, 0],
    "In rivers, we use dams such as those of 1960.": [0, 0, 0],
}


def test_features_of_a_sentence():
    features = features_of(list(FEATURES), "Beaches shrink.")
    assert features[:, 0].tolist() == [0] * len(FEATURES)
    assert features[:, 1:].tolist() == list(FEATURES.values())


def test_coverage_counts_each_occurrence_of_a_long_word():
    # of the 5 long words, "find" is one, and "sand" is two
    text = "We find sand. The sand of rivers moves."
    features = features_of(["We find sand.", "We find sand in sand.", "We find it."], text)
    assert features[:, 0].tolist() == [3 / 5, 3 / 5, 1 / 5]


def test_the_merit_of_a_sentence_weighs_its_features():
    text = "We find sand in rivers. These rivers carry much sand."
    merits = sentence_candidates(text)
    # long words: "find", "these", "carry", "much", and twice "sand" and "rivers"
    coverage, _, reference, background = FEATURE_WEIGHTS
    assert merits == {
        "We find sand in rivers.": pytest.approx(coverage * 5 / 8),
        "These rivers carry much sand.": pytest.approx(coverage * 7 / 8 + reference + background),
    }


def test_several_documents_give_candidates_of_their_own():
    definition = "We define mutual information (MI) anew."
    fair, slow = "We show that the MI of sand is fair.", "The method needs two days of work."
    merits = sentence_candidates([definition, f"{fair} {slow}"])
    # no pair of sentences of both documents, and no acronym of the first one spelled out in the second one
    pair = "We show that the MI of sand is fair, and the method needs two days of work."
    assert list(merits) == [definition, fair, slow, pair]
    # 4 of the 12 long words of both documents
    assert merits[definition] == pytest.approx(FEATURE_WEIGHTS[0] * 4 / 12)
    assert list(sentence_candidates(["", definition, " "])) == [definition]


def test_a_long_document_leaves_room_for_the_candidates_of_others():
    long = [f"The tenant of floor {floor} shall pay the rent." for floor in range(100)]
    short = ["The owner shall heat the house.", "The owner shall paint all of the doors."]
    candidates = list(sentence_candidates([" ".join(long), " ".join(short)]))
    assert len(candidates) == 64
    assert candidates[:5] == [long[0], short[0], long[1], short[1], long[2]]


def test_no_candidate_ends_where_the_limit_of_reading_falls():
    paid, unread = "The tenant of floor 1 shall pay the rent.", "The tenant of floor 2 shall pay the rent of a month."
    # too long for a candidate
    filler = f"We pay {'rent ' * 3979}rent."
    text = f"{paid} {filler} {unread}"
    assert text[:20_000].endswith("shall pay the rent of a mont")
    assert list(sentence_candidates(text)) == [paid]
    # without the end of a sentence, all is read
    (endless,) = sentence_candidates("rent " * 5000)
    assert endless == f"Rent {'rent ' * 3998}rent."


def test_a_text_in_capitals_gives_sentences_in_lower_case():
    text = "SAND MOVES IN MANY RIVERS TODAY. WE SHOW THAT SAND MOVES IN ALL RIVERS."
    expected = ["Sand moves in many rivers today.", "We show that sand moves in all rivers."]
    assert list(sentence_candidates(text)) == expected
