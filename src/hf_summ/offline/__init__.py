"""Summaries of millions of rows, in shards that are written completely or not at all, so a killed run can resume."""
