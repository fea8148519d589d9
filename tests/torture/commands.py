"""`hf-summ` for cases: in this process, with its error as an exception for the judge."""

import sys
from io import BytesIO, TextIOWrapper
from unittest import mock

from hf_summ import cli


def command(*argv: object, stdin: bytes = b"") -> None:
    """Run `hf-summ` with these arguments.

    Raises:
        Exception: the error that the command reports in a line.
        SystemExit: argparse refuses the arguments.
        AssertionError: an exit status without an error.
    """
    reported = []
    one_line = cli.one_line

    def report(error: object) -> str:
        reported.append(error)
        return one_line(error)

    with mock.patch.object(cli, "one_line", report), mock.patch.object(sys, "stdin", TextIOWrapper(BytesIO(stdin))):
        status = cli.main([str(argument) for argument in argv])
    if reported:
        raise reported[0]
    assert status == 0, f"exit status {status} without an error"
