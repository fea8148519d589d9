"""The ground floor: what every room but `models` uses, and what imports nothing of ours."""
