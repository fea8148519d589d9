"""What people are asked about two summaries of a document, on how many documents, and how papers print it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from hf_summ.common.messages import unknown_choice
from hf_summ.models.checks import check_integer, check_text

# a vote: for the summary on one side or the other, or for neither
CHOICES = ("A", "B", "tie")
_UNITS = ("documents", "percent")
_MOST_DIGITS = 9
# the columns of a sheet besides its aspects
COLUMNS = ("sheet", "item", "document", "reference", "summary A", "summary B")


@dataclass(frozen=True)
class Protocol:
    """A blind comparison of two summaries: for each aspect, voters choose one of them, or a tie.

    Args:
        documents: how many are drawn from a corpus.
        voters: how many people vote on each.
        aspects: name -> the question that voters answer.
        unit: what wins, losses and ties are printed as: "percent" of the votes, or the number of "documents" per voter.
        digits: how many are printed behind the decimal point.

    Raises:
        TypeError: a number that is none, or a question that is no text.
        ValueError: no documents, voters or aspects; an aspect without a name or question, or named like a column; an
            unknown unit, or more than 9 digits.
    """

    documents: int
    voters: int
    aspects: Mapping[str, str]
    unit: Literal["documents", "percent"] = "percent"
    digits: int = 1

    def __post_init__(self):
        for name in ("documents", "voters"):
            check_integer(name, getattr(self, name), 1)
        check_integer("digits", self.digits, 0, _MOST_DIGITS)
        if self.unit not in _UNITS:
            raise ValueError(unknown_choice("`unit`", self.unit, _UNITS))
        if not self.aspects:
            raise ValueError("`aspects` is empty, but must have a name and a question for each")
        for name, question in self.aspects.items():
            check_text("aspects", question)
            if not name.strip() or not question.strip():
                raise ValueError(f"the aspect {name!r} asks {question!r}: give both a name and a question")
            if name in COLUMNS:
                raise ValueError(
                    f"an aspect is named '{name}', as is another column of the sheets: name it differently"
                )


PROTOCOLS: Mapping[str, Protocol] = {
    # Kwon et al. 2021, section 5 and Table 3
    "gdlf": Protocol(
        # stated: "the same 50 documents", "voted on by three different participants"
        documents=50,
        voters=3,
        # stated: "choose the more relevant summary", which "better represents the source text"
        aspects={"relevance": "Which summary is more relevant, that is, better represents the document?"},
        # 25.7, 20.7 and 3.6, which add up to 50
        unit="documents",
    ),
    # Liu et al. 2021, section 4.4 and Table 3
    "highlight_transformer": Protocol(
        # stated: "50 samples from the test set", "four annotators"
        documents=50,
        voters=4,
        # stated, with these definitions
        aspects={
            "informativeness": "Which summary covers more of the information of the document?",
            "fluency": "Which summary is better organized and grammatically more correct?",
            "non-redundancy": "Which summary repeats less information?",
        },
    ),
    # Xu et al. 2020, section 5.3 and Table 4
    "sagcopy": Protocol(
        # stated, of Gigaword's test set
        documents=100,
        # chosen: the paper does not say, but all of its percentages are those of 300 votes
        voters=3,
        # stated; chosen: the questions, as the paper defines neither
        aspects={
            "importance": "Which summary has more of what is important in the document?",
            "readability": "Which summary is easier to read?",
        },
        digits=2,
    ),
}
