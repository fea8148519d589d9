"""Train, evaluate and apply summarization models: `run_summarization.py CONFIG.yaml [--flag value ...]`.

Every key of the file is a flag, and flags take precedence; `--help` lists them. `accelerate launch` starts several
processes.
"""

from hf_summ.training.run import console_main

if __name__ == "__main__":
    raise SystemExit(console_main())
