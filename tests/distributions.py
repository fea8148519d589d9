"""Small distributions of corpora in their authors' formats, of invented texts that are always the same.

Each function writes the files of a form to a folder and returns the settings of `Corpus` that read all its splits.
"""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

from tests.data.files import json_lines, lines, write, write_csv

# split -> number of rows
SIZES = {"train": 6, "validation": 4, "test": 3}
PARTS = {"train": "train", "validation": "val", "test": "test"}
Settings = dict[str, str | int]


def document(split: str, number: int) -> str:
    """A document of three sentences; its characters are those that readers could change."""
    return (
        f"Ferry {number} of the {split} line left the harbor at {number + 6}:30 . It carried {7 * number} cars, "
        f'"two" dogs & 1.5 tons of <unk> – the café\'s.  Nobody\u00a0was hurt ; see (http://ferry.example/{number}) .'
    )


def summary(split: str, number: int) -> str:
    """A summary of one sentence."""
    return f"Ferry {number} of the {split} line sails ## times, <unk> says"


def pairs(split: str) -> list[tuple[str, str]]:
    """The documents and summaries of a split."""
    return [(document(split, number), summary(split, number)) for number in range(SIZES[split])]


def documents_of(split: str) -> list[str]:
    return [text for text, _ in pairs(split)]


def summaries_of(split: str) -> list[str]:
    return [text for _, text in pairs(split)]


def all_splits(name: Path, data_format: str) -> Settings:
    """The settings that read each split from the same folder."""
    return {f"{split}_file": str(name) for split in SIZES} | {"data_format": data_format}


def write_in(folder: Path, name: str, content: str | bytes) -> str:
    """Write a file in a folder or a subfolder, which is made; the content is compressed if the name ends in .gz."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    return write(path, content)


# XSum


def xsum(folder: Path) -> Settings:
    splits: dict[str, list[str]] = {}
    for split in SIZES:
        splits[split] = []
        for number, (text, headline) in enumerate(pairs(split)):
            identifier = f"{len(split)}{number}"
            splits[split].append(identifier)
            body = text.replace(". It", ".\n\nShare this with\nEmail\nIt")
            article = (
                f"[SN]URL[SN]\nhttp://ferry.example/{identifier}\n\n[SN]TITLE[SN]\nFerries\n\n"
                f"[SN]FIRST-SENTENCE[SN]\n{headline}\n\n[SN]RESTBODY[SN]\n{body}\nEmail the harbor.\n"
            )
            write_in(folder, f"bbc-summary-data/{identifier}.summary", article)
    # a page without text is left out
    splits["train"].insert(1, "99")
    write_in(folder, "bbc-summary-data/99.summary", "[SN]FIRST-SENTENCE[SN]\nNothing.\n\n[SN]RESTBODY[SN]\nEmail\n")
    write(folder / "XSum-TRAINING-DEV-TEST-SPLIT-90-5-5.json", json.dumps(splits))
    return all_splits(folder, "xsum")


# CNN/DailyMail


def story(split: str, number: int) -> str:
    text = document(split, number).replace(". It", ".\n\nIt")
    return f"{text}\n\n@highlight\n\n{summary(split, number)}\n\n@highlight\n\nAn @highlight {number}\n"


def write_addressed_stories(folder: Path, folder_of_lists: str) -> None:
    """Stories in the folders of CNN and DailyMail, and the lists of their addresses."""
    for split, part in PARTS.items():
        addresses = []
        for number in range(SIZES[split]):
            publisher = ("cnn", "dailymail")[number % 2]
            address = f"http://www.{publisher}.example/{split}/{number}"
            addresses.append(address)
            name = hashlib.sha1(address.encode()).hexdigest()
            write_in(folder, f"{publisher}/stories/{name}.story", story(split, number))
        write_in(folder, f"{folder_of_lists}all_{part}.txt", lines(addresses))


def cnn_dm_addresses(folder: Path) -> Settings:
    write_addressed_stories(folder, "")
    return all_splits(folder, "cnn_dm")


def cnn_dm_url_lists(folder: Path) -> Settings:
    write_addressed_stories(folder, "url_lists/")
    return all_splits(folder, "cnn_dm")


def cnn_dm_folders(folder: Path) -> Settings:
    """Two folders of stories for training, a list of names for validation, and a story for the test."""
    for number in range(SIZES["train"]):
        publisher = ("cnn", "dailymail")[number % 2]
        # names whose order is not that of the numbers
        write_in(folder, f"{publisher}/stories/{9 - number}.story", story("train", number))
    write_in(folder, "cnn/stories/windows.story", "\ufeff" + story("train", 7).replace("\n", "\r\n"))
    write_in(folder, "cnn/stories/empty.story", "")
    write_in(folder, "cnn/stories/bare.story", "A text without highlights.\n")
    write_in(folder, "cnn/stories/._9.story", b"\x00\x05\x16\x07\xff")
    write_in(folder, "cnn/stories/readme.txt", "not a story")
    names = ["cnn/stories/9.story", "", "dailymail/stories/8.story", "cnn/stories/windows.story"]
    return {
        "train_file": f"{folder / 'cnn/stories'},{folder / 'dailymail/stories'}",
        "validation_file": write(folder / "validation.txt", lines(names)),
        "test_file": str(folder / "cnn/stories/7.story"),
        "data_format": "cnn_dm",
    }


# Newsroom


def newsroom(folder: Path, ending: str = "", **option: str) -> Settings:
    density_bins = ("abstractive", "mixed", "extractive")
    for split, stem in {"train": "train", "validation": "dev", "test": "test"}.items():
        rows = []
        for number, (text, headline) in enumerate(pairs(split)):
            density_bin = density_bins[number % 3]
            row = {"text": text, "summary": headline, "title": f"Ferry {number}", "density": number / 2}
            rows.append(row | {"density_bin": density_bin, "url": f"http://ferry.example/{number}"})
        write(folder / f"{stem}.jsonl{ending}", json_lines(rows))
    return all_splits(folder, "newsroom") | option


def newsroom_compressed(folder: Path) -> Settings:
    return newsroom(folder, ".gz", density_bin="abstractive")


def newsroom_mixed(folder: Path) -> Settings:
    return newsroom(folder, density_bin="mixed")


def newsroom_extractive(folder: Path) -> Settings:
    return newsroom(folder, density_bin="extractive")


# Gigaword and DUC


def gigaword_nested(folder: Path) -> Settings:
    """The distributed folder, with a filtered validation part, and Gigaword's own test part."""
    for side, texts_of in (("article", documents_of), ("title", summaries_of)):
        write_in(folder, f"train/train.{side}.txt", lines(texts_of("train")))
        write_in(folder, f"train/valid.{side}.filter.txt", lines(texts_of("validation")))
        write_in(folder, f"train/valid.{side}.txt", lines(texts_of("train")))
    write_in(folder, "Giga/input.txt", lines(documents_of("test")))
    write_in(folder, "Giga/task1_ref0.txt", lines(summaries_of("test")))
    return all_splits(folder, "gigaword")


def gigaword_compressed(folder: Path) -> Settings:
    """Compressed files in one folder, a blank title, and a test part with several references."""
    titles = summaries_of("train")
    titles[2] = " "
    write(folder / "train.article.txt.gz", lines(documents_of("train")))
    write(folder / "train.title.txt.gz", lines(titles))
    write(folder / "valid.article.txt", lines(documents_of("validation")))
    write(folder / "valid.title.txt.gz", lines(summaries_of("validation")))
    write_references(folder, 3)
    return all_splits(folder, "gigaword")


def write_references(folder: Path, number_of_references: int) -> list[str]:
    """The files of a test part with several references, of which a few are blank."""
    files = [write_in(folder, "input.txt", lines(documents_of("test")))]
    for reference in range(number_of_references):
        texts = [f"{text} ({reference})" for text in summaries_of("test")]
        if reference == 1:
            texts[1] = ""
        files.append(write_in(folder, f"task1_ref{reference}.txt", lines(texts)))
    return files


def duc_folder(folder: Path) -> Settings:
    write_references(folder, 12)
    return {"test_file": str(folder), "data_format": "duc"}


# Multi-News


def cluster(split: str, number: int, separator: str = "|||||") -> str:
    """The documents of a row; every third has a blank one, and all have marks of line ends."""
    texts = [document(split, number + index) for index in range(1 + number % 3)]
    texts = [text.replace(". It", ". NEWLINE_CHAR NEWLINE_CHAR It") for text in texts]
    if number % 3 == 0:
        texts.append(" ")
    return f" {separator} ".join(texts) + f" {separator}"


def multi_news_cleaned(folder: Path) -> Settings:
    """Corrected documents, which are read instead of the first ones."""
    for split, part in PARTS.items():
        numbers = range(SIZES[split])
        write(folder / f"{part}.src.cleaned", lines(cluster(split, number) for number in numbers))
        write(folder / f"{part}.src", lines("An uncorrected text." for _ in numbers))
        write(folder / f"{part}.tgt", lines(f"– {text}" for text in summaries_of(split)))
    return all_splits(folder, "multi_news")


def multi_news_older(folder: Path) -> Settings:
    """The files of the first distribution, with its separator."""
    for split, part in PARTS.items():
        texts = [cluster(split, number, "story_separator_special_tag") for number in range(SIZES[split])]
        write(folder / f"{part}.txt.src", lines(texts))
        write(folder / f"{part}.txt.tgt", lines(f"– {text}" for text in summaries_of(split)))
    return all_splits(folder, "multi_news")


# LCSTS


def lcsts(folder: Path, subfolder: str = "", ending: str = "") -> Settings:
    for split, part in {"train": "I", "validation": "II", "test": "III"}.items():
        texts = []
        for number in range(SIZES[split] + 2):
            label = "" if split == "train" else f"    <human_label>{1 + number % 5}</human_label>\n"
            texts.append(
                f"<doc id={number}>\n{label}    <summary>\n        {split}渡轮{number}号启航\n    </summary>\n"
                f"    <short_text>\n        渡轮{number}号 & <b>&lt; 于今晨离港，\n\n载有{7 * number}辆车。\u3000\n"
                "    </short_text>\n</doc>\n"
            )
        write_in(folder, f"{subfolder}PART_{part}.txt{ending}", "".join(texts))
    return all_splits(folder, "lcsts")


def lcsts_of_all_scores(folder: Path) -> Settings:
    return lcsts(folder, "DATA/") | {"min_score": 1}


def lcsts_of_high_scores(folder: Path) -> Settings:
    return lcsts(folder, ending=".gz") | {"min_score": 4}


# WMT16


def write_translations(folder: Path, language: str, training: list[str], tests: dict[str, str]) -> Settings:
    """Line-aligned files for training, and test sets in SGML."""
    for index, stem in enumerate(training):
        # the files have different rows, and one has a blank sentence
        sentences = [f"{text} ({index})" for text in documents_of("train")]
        if index == 1:
            sentences[3] = ""
        write_in(folder, f"training/{stem}.en", lines(sentences))
        write_in(folder, f"training/{stem}.{language}", lines(summaries_of("train")))
    for split, stem in tests.items():
        for side, texts, head in (
            ("src.en", documents_of(split), "<srcset>\n"),
            (f"ref.{language}", summaries_of(split), '<refset>\n<doc sysid="ref">\n'),
        ):
            segments = [f'<seg id="{number}">{text}</seg>\n' for number, text in enumerate(texts, 1)]
            write_in(folder, f"dev/{stem}-{side}.sgm", f"{head}<p>\n{''.join(segments)}</p>\n")
    return all_splits(folder, f"wmt16_en_{language}")


def wmt16_en_de(folder: Path) -> Settings:
    training = ["europarl-v7.de-en", "commoncrawl.de-en", "news-commentary-v11.de-en"]
    return write_translations(folder, "de", training, {"validation": "newstest2013", "test": "newstest2014-deen"})


def wmt16_en_ro(folder: Path) -> Settings:
    training = ["europarl-v8.ro-en", "SETIMES.en-ro"]
    return write_translations(folder, "ro", training, {"validation": "newsdev2016-enro", "test": "newstest2016-enro"})


DISTRIBUTIONS: dict[str, Callable[[Path], Settings]] = {
    "xsum": xsum,
    "cnn_dm, addresses": cnn_dm_addresses,
    "cnn_dm, url_lists": cnn_dm_url_lists,
    "cnn_dm, folders": cnn_dm_folders,
    "newsroom": newsroom,
    "newsroom, abstractive, compressed": newsroom_compressed,
    "newsroom, mixed": newsroom_mixed,
    "newsroom, extractive": newsroom_extractive,
    "gigaword, nested": gigaword_nested,
    "gigaword, compressed": gigaword_compressed,
    "duc, folder": duc_folder,
    "multi_news, cleaned": multi_news_cleaned,
    "multi_news, older": multi_news_older,
    "lcsts": lcsts,
    "lcsts, all scores": lcsts_of_all_scores,
    "lcsts, high scores, compressed": lcsts_of_high_scores,
    "wmt16_en_de": wmt16_en_de,
    "wmt16_en_ro": wmt16_en_ro,
}


def write_swisstext(folder: Path) -> None:
    """The only file of SwissText, which `PublicCorpus.load` divides at random."""
    rows = []
    for number in range(60):
        rows.append({"source": document("train", number), "summary": summary("train", number)})
    write_csv(folder / "data_train.csv", rows)
