"use strict";
// Sends the text to the page's own service, and marks the parts that the model read.
const element = (id) => document.getElementById(id);
const form = element("form");
const text = element("document");
const NUMBERS = ["num_beams", "max_new_tokens"];

function say(message, wrong = false) {
  element("status").textContent = message;
  element("status").classList.toggle("wrong", wrong);
}

function parameters() {
  const given = { return_details: true, long_documents: form.elements.long_documents.value };
  for (const name of NUMBERS) {
    if (element(name).value !== "") given[name] = Number(element(name).value);
  }
  return given;
}

// offsets count code points; some take two UTF-16 units
function showRead(source, ranges) {
  const characters = Array.from(source);
  const parts = [];
  let end = 0;
  for (const [start, stop] of ranges) {
    const mark = document.createElement("mark");
    mark.textContent = characters.slice(start, stop).join("");
    parts.push(characters.slice(end, start).join(""), mark);
    end = stop;
  }
  element("read").replaceChildren(...parts, characters.slice(end).join(""));
}

function show(source, { summary_text: summary, details }) {
  element("summary").textContent = summary || "The summary is blank.";
  element("reading").hidden = !details;
  if (details) {
    const { source_tokens: all, read_tokens: read, windows } = details;
    const pieces = windows ? `, in ${windows.length} pieces` : "";
    element("caption").textContent = `The model read ${read} of ${all} tokens${pieces}, marked below.`;
    showRead(source, details.read);
  }
  element("result").hidden = false;
  element("of-summary").focus();
}

// prompted for if the service requires it
let key = "";

async function summarize() {
  const source = text.value;
  element("submit").disabled = true;
  say("Summarizing …");
  try {
    const answer = await fetch("./", {
      method: "POST",
      headers: {
        "Content-Type": "application/json",
        Accept: "application/json",
        ...(key && { Authorization: `Bearer ${key}` }),
      },
      body: JSON.stringify({ inputs: source, parameters: parameters() }),
    });
    const content = await answer.json();
    if (answer.status === 401 && (key = prompt("The service's API key:") ?? "")) return await summarize();
    if (!answer.ok) throw new Error(content.error);
    show(source, content[0]);
    say("Done.");
  } catch (error) {
    element("result").hidden = true;
    say(`There is no summary: ${error.message}.`, true);
  } finally {
    element("submit").disabled = false;
  }
}

async function showModel() {
  const about = await (await fetch("info")).json();
  element("model").textContent = about.model_id ? `by ${about.model_id}` : "";
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  if (!element("submit").disabled) summarize();
});
text.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
});
showModel().catch(() => say("The service does not answer.", true));
