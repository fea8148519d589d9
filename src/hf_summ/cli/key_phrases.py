"""`hf-summ key-phrases`: a processor with the document frequencies that select key phrases."""

import argparse
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from hf_summ.cli.summarizers import CORPUS_FILES
from hf_summ.common.files import check_new_folder, moved_into_place
from hf_summ.common.flags import add_flags
from hf_summ.data.corpora import Reading

if TYPE_CHECKING:
    from hf_summ.models.processing_highlight_transformer import HighlightTransformerProcessor


def add_parser(commands) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser(
        "key-phrases",
        description="Count the examples in which each phrase of two or three words occurs, and write a processor for "
        "the Highlight-Transformer. It selects key phrases by these frequencies and has the vocabulary of --processor. "
        "If --data_format is given, only the training split of the folder is read.",
    )
    parser.add_argument("files", nargs="+", metavar="FILE", help=CORPUS_FILES)
    parser.add_argument(
        "--processor", required=True, help="Processor or tokenizer with the vocabulary: a folder or a Hub repository"
    )
    parser.add_argument(
        "--output", required=True, help="New or empty folder for the processor, or the same as --processor"
    )
    parser.add_argument(
        "--max_source_length",
        type=int,
        help="Number of tokens to which documents are truncated, as in training (default: the processor's)",
    )
    parser.add_argument(
        "--max_frequencies",
        type=int,
        default=200_000,
        help="Maximum number of phrases to keep, the most frequent (default: %(default)s)",
    )
    parser.add_argument(
        "--num_phrases", type=int, default=10, help="Number of phrases to find in an example (default: %(default)s)"
    )
    parser.add_argument(
        "--skip_stop_words",
        action="store_true",
        help="Leave stop words out before words are joined to phrases, as scikit-learn does, so that a phrase may skip "
        "words of the text (default: a phrase is contiguous in the text)",
    )
    add_flags(parser, Reading)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Fit the frequencies and write the processor."""
    from hf_summ.data.columns import source_column
    from hf_summ.data.loading import training_rows
    from hf_summ.data.vocabulary import fit_phrases, load_tokenizer

    output = Path(arguments.output)
    replaces_processor = output.is_dir() and output.resolve() == Path(arguments.processor).resolve()
    if not replaces_processor:
        check_new_folder(output)
    rows = training_rows(arguments.files, vars(arguments), with_summaries=False)
    examples = (row[source_column(row)] for row in rows)
    processor = fit_phrases(
        examples,
        load_tokenizer(arguments.processor),
        arguments.max_frequencies,
        num_phrases=arguments.num_phrases,
        skip_stop_words=arguments.skip_stop_words,
        max_source_length=arguments.max_source_length,
    )
    if replaces_processor:
        _replace_settings(output, processor)
    else:
        with moved_into_place(output) as draft:
            processor.save_pretrained(draft)
    print(
        f"{arguments.output}: {len(processor.document_frequencies)} phrases that occur in at least 2 of "
        f"{processor.fitted_examples} examples"
    )


def _replace_settings(folder: Path, processor: "HighlightTransformerProcessor") -> None:
    """Replace the file with the settings of a processor in one step.

    Args:
        folder: the folder of the processor, which already has the files of the vocabulary.
        processor: the processor with the new settings.
    """
    from transformers.utils import PROCESSOR_NAME

    with TemporaryDirectory() as temporary, moved_into_place(folder / PROCESSOR_NAME) as draft:
        processor.save_pretrained(temporary)
        shutil.copy(Path(temporary, PROCESSOR_NAME), draft)
