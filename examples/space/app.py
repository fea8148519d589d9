"""A Gradio Space that summarizes a text."""

import os

import gradio as gr
from transformers import pipeline

import hf_summ

summarizer = pipeline("summarization", model=os.environ.get("MODEL") or hf_summ.bundled_model())


def summarize(text: str, num_beams: float, max_new_tokens: float) -> str:
    """The summary of a text."""
    if not text.strip():
        raise gr.Error("There is no text to summarize.")
    return summarizer(text, num_beams=int(num_beams), max_new_tokens=int(max_new_tokens))[0]["summary_text"]


demo = gr.Interface(
    summarize,
    inputs=[
        gr.Textbox(label="Text", lines=12),
        gr.Slider(1, 8, value=4, step=1, label="Beams"),
        gr.Slider(10, 256, value=80, step=1, label="Longest summary, in tokens"),
    ],
    outputs=gr.Textbox(label="Summary"),
    title="Summarize a text",
    flagging_mode="never",
)

if __name__ == "__main__":
    demo.launch()
