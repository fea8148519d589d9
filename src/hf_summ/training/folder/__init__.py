"""A run's output folder: its ledger, from which checkpoint it resumes, and the average of its checkpoints."""
