"""`python -m hf_summ`: the same as `hf-summ`."""

import sys

from hf_summ.cli import main

sys.exit(main())
