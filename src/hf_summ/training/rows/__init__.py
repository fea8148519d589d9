"""The rows of a run: the corpus, shortened, as token ids, and in batches."""
