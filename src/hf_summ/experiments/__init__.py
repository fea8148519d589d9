"""The papers' tables: their rows, how these are trained and scored, and a comparison with the published figures."""
