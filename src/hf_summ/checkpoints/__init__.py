"""Checkpoints: whether a folder is complete, its configuration, processor and adapter, and overrides of its values."""
