"""The training recipe: arguments, batches, optimization, checkpoints, trainer and run."""
