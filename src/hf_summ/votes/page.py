"""The page on which a voter votes: one file of HTML, which needs neither network nor library."""

from hf_summ.common.pages import render_page
from hf_summ.models.text_cleaning import readable
from hf_summ.votes.sheets import Sheet


def as_page(sheet: Sheet) -> str:
    """The sheet as a page of HTML, in which all texts are escaped. The browser keeps the votes until they are sent."""
    return readable(render_page("hf_summ.votes", sheet=sheet))
