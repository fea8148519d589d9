"""Blind human evaluation: sheets to vote on, and what the votes say."""

from hf_summ.votes.collecting import Votes, read_votes
from hf_summ.votes.key import Key, read_key
from hf_summ.votes.page import as_page
from hf_summ.votes.protocols import PROTOCOLS, Protocol
from hf_summ.votes.report import vote_report
from hf_summ.votes.sheets import Item, Sheet, as_csv, make_sheets

__all__ = [
    "Item",
    "Key",
    "PROTOCOLS",
    "Protocol",
    "Sheet",
    "Votes",
    "as_csv",
    "as_page",
    "make_sheets",
    "read_key",
    "read_votes",
    "vote_report",
]
