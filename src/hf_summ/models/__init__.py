"""The architectures: all that travels to the Hub with a checkpoint. `hf_summ` has the public names."""
