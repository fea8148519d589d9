"""`pipeline("summarization")` of a checkpoint's folder, on machines on which hf_summ is not installed.

The pipeline of the package hf_summ extends this one by further settings and models.
"""

from transformers import AutoProcessor, GenerationConfig, Pipeline
from transformers.utils import logging

logger = logging.get_logger(__name__)


class SummarizationPipeline(Pipeline):
    """Summarizes texts with a model of this folder.

    Call it with a text, or with a list of texts. A list in a list is one example of several documents, with one
    summary. Iterators are read lazily.

    - `truncation` (True): whether to truncate a text that is too long for the model, with a warning.
    - `clean_up_tokenization_spaces`: as for the tokenizer's `batch_decode`.
    - All other arguments go to `generate`. Unset arguments fall back to the constructor, then the generation config,
      then 4 beams and 256 tokens.

    Returns:
        For a text, a list of `{"summary_text"}`, one per returned sequence; for a list, one such record per text, or a
        list of records with several sequences. The summary of a blank text is blank.
    """

    # loaded with the checkpoint, or given
    _load_processor = None
    _load_tokenizer = None
    _load_image_processor = False
    _load_feature_extractor = False
    _load_video_processor = False
    _pipeline_calls_generate = True
    _default_generation_config = GenerationConfig(max_new_tokens=256, num_beams=4)

    def __init__(self, model, tokenizer=None, processor=None, **kwargs):
        if processor is None:
            # `pipeline` loads no processor for a model that is loaded already
            processor = AutoProcessor.from_pretrained(model.name_or_path, trust_remote_code=True, **model.hub_settings)
        super().__init__(model, tokenizer=processor.tokenizer, processor=processor, **kwargs)
        # the decoder's positions limit the default length
        for name in ("max_decoder_position_embeddings", "max_position_embeddings"):
            positions = getattr(model.config, name, None)
            if positions is not None and positions < self._generation_defaults["max_new_tokens"]:
                self._generation_defaults["max_new_tokens"] = positions

    def _sanitize_parameters(self, truncation=None, clean_up_tokenization_spaces=None, **generate):
        preprocess = {}
        if truncation is not None:
            preprocess["truncation"] = truncation
        postprocess = {"clean_up_tokenization_spaces": clean_up_tokenization_spaces}
        return preprocess, generate, postprocess

    def __call__(self, documents, **settings):
        """Summarize a text, or several; see the class."""
        results = super().__call__(documents, **settings)
        if isinstance(documents, list) and all(len(records) == 1 for records in results):
            return [records[0] for records in results]
        return results

    def preprocess(self, document, truncation=True):
        """The model's inputs for a text or a list of texts, and the text itself; a warning says if it is truncated."""
        inputs = self.processor([document], truncation=truncation, return_tensors="pt", return_lengths=True)
        length = int(inputs.pop("lengths")[0])
        kept = inputs["input_ids"].shape[1]
        del inputs["document_lengths"], inputs["kept_lengths"]
        if length > kept:
            logger.warning(f"the document has {length} tokens, but the model reads {kept}: the others were truncated")
        return {**inputs, "document": document, "row_length": kept}

    def _forward(self, inputs, **generate):
        inputs = dict(inputs)
        document = inputs.pop("document")
        row_length = inputs.pop("row_length")
        # a batch has lists
        documents = document if isinstance(row_length, list) else [document]
        settings = self._prepare_generate_kwargs(generate, return_dict_in_generate=False)
        sequences = self.model.generate(**inputs, tokenizer=self.tokenizer, candidates=documents, **settings)
        sequences = sequences.view(len(documents), -1, sequences.shape[-1])
        chosen_from = document if self._get_set_generation_params(settings).get("whole_sentences") else None
        return {"sequences": sequences, "document": document, "chosen_from": chosen_from, "row_length": row_length}

    def postprocess(self, outputs, clean_up_tokenization_spaces=None):
        """The records of a document's summaries."""
        document = outputs["document"]
        # the sequences of the only document
        sequences = outputs["sequences"][0]
        if outputs["chosen_from"] is None:
            texts = self.processor.batch_decode(
                sequences,
                skip_special_tokens=True,
                documents=[document],
                max_length=outputs["row_length"],
                clean_up_tokenization_spaces=clean_up_tokenization_spaces,
            )
            texts = self.processor.restore(texts, [document])
        else:
            # the model has the code of the choice; transformers does not load it with the pipeline's
            texts = [self.model.chosen_text(sequences[0], outputs["chosen_from"], self.tokenizer)]
        documents = [document] if isinstance(document, str) else document
        if not any(text.strip() for text in documents):
            # the summary of a blank text is blank
            texts = [""] * len(texts)
        return [{"summary_text": text.strip()} for text in texts]
