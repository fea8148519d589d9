"use strict";
// The tables hold all numbers; this script reads them and shows them in the texts.
const rows = (id) => [...document.querySelectorAll(`#${id} tbody tr`)];
const words = [...document.querySelectorAll("#source b")];
const buttons = [...document.querySelectorAll("#summary button")];
const caption = document.getElementById("caption");
const summaryRows = rows("summary-words");
const sourceRows = rows("source-words");
words.forEach((word, number) => { word.id = `word-${number + 1}`; });

function shade(column) {
  const values = sourceRows.map((row) => Number(row.cells[column].textContent));
  const largest = Math.max(...values);
  words.forEach((word, number) => {
    word.style.setProperty("--value", largest > 0 ? Math.max(values[number], 0) / largest : 0);
  });
  document.querySelectorAll(".caption-shade").forEach((note, number) => { note.hidden = number + 1 !== column; });
}

function context(number) {
  const range = document.createRange();
  const paragraph = words[number].parentNode;
  const inside = (index) => words[index] && words[index].parentNode === paragraph;
  let [first, last] = [number, number];
  while (number - first < 3 && inside(first - 1)) first -= 1;
  while (last - number < 3 && inside(last + 1)) last += 1;
  range.setStartBefore(words[first]);
  range.setEndAfter(words[last]);
  return range.toString();
}

function clear() {
  buttons.forEach((button) => button.setAttribute("aria-pressed", "false"));
  words.forEach((word) => word.classList.remove("origin", "weak"));
  caption.textContent = "No word of the summary is chosen.";
}

function choose(number) {
  const cells = summaryRows[number].cells;
  const [word, probability, gate, copied] = [...cells].slice(0, 4).map((cell) => cell.textContent);
  clear();
  buttons[number].setAttribute("aria-pressed", "true");
  caption.textContent = `“${word}” has probability ${probability}. It was copied with probability ${copied} (gate ${gate})`;
  const origins = [...cells[4].querySelectorAll("data")];
  caption.append(origins.length ? ", from " : ".");
  origins.forEach((origin, place) => {
    const number = Number(origin.value);
    const share = parseFloat(origin.nextSibling.textContent);
    words[number].classList.add("origin");
    words[number].classList.toggle("weak", share < 0.1);
    const link = document.createElement("a");
    link.href = `#word-${number + 1}`;
    link.textContent = `“… ${context(number)} …”`;
    caption.append(link, ` ${share}`, place + 1 < origins.length ? ", " : ".");
  });
  if (cells[5].textContent.trim() === "no") caption.append(" It does not occur in the source.");
}

function walk(event) {
  const here = buttons.indexOf(event.target);
  const forward = getComputedStyle(event.currentTarget).direction === "rtl" ? "ArrowLeft" : "ArrowRight";
  const backward = forward === "ArrowRight" ? "ArrowLeft" : "ArrowRight";
  const places = { [forward]: here + 1, [backward]: here - 1, Home: 0, End: buttons.length - 1 };
  if (event.key === "Escape") clear();
  if (here < 0 || !(event.key in places)) return;
  event.preventDefault();
  const next = Math.min(Math.max(places[event.key], 0), buttons.length - 1);
  buttons[next].focus();
  choose(next);
}

buttons.forEach((button, number) => {
  button.style.setProperty("--value", summaryRows[number].cells[3].textContent);
  button.tabIndex = number ? -1 : 0;
  button.addEventListener("click", () => {
    if (button.getAttribute("aria-pressed") === "true") clear();
    else choose(number);
  });
  button.addEventListener("focus", () => {
    buttons.forEach((other) => { other.tabIndex = other === button ? 0 : -1; });
  });
});
document.getElementById("summary").addEventListener("keydown", walk);
document.querySelectorAll("input[name=shade]").forEach((input) => {
  input.addEventListener("change", () => shade(Number(input.value)));
});
clear();
shade(Number(document.querySelector("input[name=shade]:checked").value));
