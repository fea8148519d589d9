"""The results of a run: scores, predictions and the model card."""
