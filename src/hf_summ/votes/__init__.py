"""Blind human evaluation: sheets to vote on, and reports of the votes."""

from hf_summ.votes.agreement import fleiss_kappa, krippendorff_alpha
from hf_summ.votes.collecting import Votes, read_votes
from hf_summ.votes.report import vote_report
from hf_summ.votes.sheets import PROTOCOLS, Item, Key, Protocol, Sheet, as_csv, as_page, make_sheets, read_key

__all__ = [
    "Item",
    "Key",
    "PROTOCOLS",
    "Protocol",
    "Sheet",
    "Votes",
    "as_csv",
    "as_page",
    "fleiss_kappa",
    "krippendorff_alpha",
    "make_sheets",
    "read_key",
    "read_votes",
    "vote_report",
]
