"""`python -m hf_summ.training CONFIG.yaml [--flag value ...]`, also under `accelerate launch -m`."""

from hf_summ.training.run import console_main

if __name__ == "__main__":
    raise SystemExit(console_main())
