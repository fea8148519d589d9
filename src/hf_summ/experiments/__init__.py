"""The papers' tables: which rows they have, what trains and scores them, and how ours lie beside the published."""
