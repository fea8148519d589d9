"""`python -m hf_summ.training CONFIG.yaml [--flag value ...]`, also under `accelerate launch -m`."""

import sys
import traceback
from threading import Event

from hf_summ.common.messages import one_line
from hf_summ.common.processes import INTERRUPTED, TERMINATED, end_on_sigterm
from hf_summ.training.folder.ledger import FolderInUse

# the exit status if another run uses the output folder: EX_TEMPFAIL in sysexits.h
IN_USE = 75


def main(argv: list[str] | None = None, prefix: str = "") -> int:
    """Run the training recipe. An error that the user can fix is printed in one line.

    Args:
        argv: the arguments of the command line; by default the arguments of this process.
        prefix: the beginning of the line with an error.

    Returns:
        0 on success, 2 for an error in the settings, 1 for an error of this package after the start, 75 if another run
        uses the output folder, 130 after Ctrl-C, 143 after SIGTERM.

    Raises:
        ValueError, OSError, ImportError, FloatingPointError: after the start, an error of the operating system or of
            another library. Python then prints a traceback, and exits with status 1.
        SystemExit: the command line asks for the help.
    """
    if argv is None:
        argv = sys.argv[1:]
    end_on_sigterm()
    arguments = None
    # set when all settings are checked and the long steps begin
    started = Event()
    try:
        # these are imported here so that Ctrl-C during the import of libraries also ends in one line
        from hf_summ.training.parsing import parse_arguments
        from hf_summ.training.run import end_processes, run

        arguments = parse_arguments(argv)
        run(arguments, argv, on_start=started.set)
    except (KeyboardInterrupt, SystemExit) as error:
        # SIGTERM raises a SystemExit, whose code is its exit status
        status = getattr(error, "code", INTERRUPTED)
        if status not in (INTERRUPTED, TERMINATED):
            raise
        message = None
        if arguments is None:
            message = "interrupted: rerun the command to start over"
        elif arguments.training.do_train and arguments.training.process_index == 0:
            message = _resume_hint(arguments.training.output_dir)
        if message is not None:
            # the message is on a line below the progress bar
            print(f"\n{prefix}{message}", file=sys.stderr)
        return status
    except FolderInUse as error:
        print(f"{prefix}error: {error}", file=sys.stderr)
        return IN_USE
    except (ValueError, OSError, ImportError, FloatingPointError) as error:
        # Only the messages of this package say what to do. Hours into a run, an error of the operating system, also one
        # that our code meets, or of another library needs a traceback, which shows the step that failed.
        needs_traceback = isinstance(error, OSError) or not _is_ours(error)
        if started.is_set() and needs_traceback:
            raise
        print(f"{prefix}error: {one_line(error)}", file=sys.stderr)
        return 1 if started.is_set() else 2
    end_processes()
    return 0


def _resume_hint(folder: str) -> str:
    """The message for an interrupted training run, which says how to resume it.

    Args:
        folder: the output folder with the run's checkpoints.
    """
    from hf_summ.training.folder.resuming import last_complete_checkpoint

    checkpoint = last_complete_checkpoint(folder)
    if checkpoint is None:
        return "interrupted before the first checkpoint: rerun the command to start over"
    return f"interrupted: rerun the command to resume from {checkpoint}"


def _is_ours(error: Exception) -> bool:
    """Whether the package itself raised the error, so that its message is sufficient."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    raising_module = frames[-1].f_globals.get("__name__", "")
    return raising_module.startswith("hf_summ.")


if __name__ == "__main__":
    raise SystemExit(main())
