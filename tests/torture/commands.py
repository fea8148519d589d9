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
    error_line = cli.error_line

    def report(error: object, *given) -> str:
        # argparse's errors are texts, and end in SystemExit
        if isinstance(error, BaseException):
            reported.append(error)
        return error_line(error, *given)

    with mock.patch.object(cli, "error_line", report), mock.patch.object(sys, "stdin", TextIOWrapper(BytesIO(stdin))):
        status = cli.main([str(argument) for argument in argv])
    if reported:
        raise reported[0]
    assert status == 0, f"exit status {status} without an error"
