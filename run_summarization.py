"""Train, evaluate and apply summarization models: `run_summarization.py CONFIG.yaml [--flag value ...]`.

Every key of the file is a flag, and flags take precedence; `--help` lists them. `accelerate launch` starts several
processes.
"""

from hf_summ.training.__main__ import main

if __name__ == "__main__":
    raise SystemExit(main())
