"""The papers' tables: their rows, training and scoring of these, and a comparison with the published figures."""
