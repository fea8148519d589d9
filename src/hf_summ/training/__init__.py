"""The training recipe: arguments, batches, optimization, checkpoints, the trainer and the run."""
