"""`python -m hf_summ.training CONFIG.yaml [--flag value ...]`, also under `accelerate launch -m`."""

import sys


def main() -> int:
    """Run the training recipe and return its exit status, see `hf_summ.training.run.console_main`."""
    try:
        # here, so that Ctrl-C ends in one line while libraries are imported too
        from hf_summ.training.run import console_main

        return console_main()
    except KeyboardInterrupt:
        print("\ninterrupted: the same command starts over", file=sys.stderr)
        return 130


if __name__ == "__main__":
    raise SystemExit(main())
