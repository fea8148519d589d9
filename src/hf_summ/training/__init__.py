"""The recipe: arguments, batches, optimisation, checkpoints, the trainer and the run."""
