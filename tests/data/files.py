"""Corpus files for tests."""

import csv
import gzip
import json

ROWS = [{"document": f"Document {number}. It has words.", "summary": f"Summary {number}."} for number in range(4)]


def write(path, content):
    """Writes text or bytes, compressed if the file's name ends in .gz, and returns the name."""
    if isinstance(content, str):
        content = content.encode()
    if path.suffix == ".gz":
        content = gzip.compress(content)
    path.write_bytes(content)
    return str(path)


def change_json(path, **settings):
    """Sets keys of a JSON file, such as a configuration."""
    path.write_text(json.dumps(json.loads(path.read_text()) | settings))


def json_lines(rows):
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def read_rows(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def lines(texts):
    return "".join(f"{text}\n" for text in texts)


def write_csv(path, rows):
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return str(path)
