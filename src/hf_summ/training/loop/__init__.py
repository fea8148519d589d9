"""The training loop: a Seq2SeqTrainer with its evaluation and its callbacks."""
