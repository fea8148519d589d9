"""`python -m hf_summ`: the same as `hf-summ`."""

import sys

from hf_summ.cli import main

# processes that the command starts import this file again
if __name__ == "__main__":
    sys.exit(main())
