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
  document.querySelectorAll("[aria-pressed=true]").forEach((word) => word.setAttribute("aria-pressed", "false"));
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
  list(", from ", origins.map((origin) => [Number(origin.value), parseFloat(origin.nextSibling.textContent)]));
  if (cells[5].textContent.trim() === "no") caption.append(" It does not occur in the source.");
}

// Outlines source words, and links them in the caption; each is a number and a share.
function list(before, places) {
  caption.append(places.length ? before : ".");
  places.forEach(([number, share], place) => {
    words[number].classList.add("origin");
    words[number].classList.toggle("weak", share < 0.1);
    const link = document.createElement("a");
    link.href = `#word-${number + 1}`;
    link.textContent = `“… ${context(number)} …”`;
    caption.append(link, ` ${share}`, place + 1 < places.length ? ", " : ".");
  });
}

function attend(number) {
  clear();
  words[number].setAttribute("aria-pressed", "true");
  caption.textContent = `“${words[number].textContent}”`;
  const links = [...sourceRows[number].cells].at(-1).textContent.match(/\d+ [\d.]+/g) || [];
  list(" attends to ", links.map((link) => link.split(" ").map(Number)).map(([word, weight]) => [word - 1, weight]));
}

function walk(event, items, choose) {
  const here = items.indexOf(event.target);
  const forward = getComputedStyle(event.currentTarget).direction === "rtl" ? "ArrowLeft" : "ArrowRight";
  const backward = forward === "ArrowRight" ? "ArrowLeft" : "ArrowRight";
  const places = { [forward]: here + 1, [backward]: here - 1, Home: 0, End: items.length - 1 };
  if (event.key === "Escape") clear();
  // a native button clicks itself
  if (event.key === "Enter" && event.target.tagName === "B") event.target.click();
  if (here < 0 || !(event.key in places)) return;
  event.preventDefault();
  const next = Math.min(Math.max(places[event.key], 0), items.length - 1);
  items[next].focus();
  choose(next);
}

// Makes the words of a text buttons, of which one can be reached by Tab and the others by arrow keys.
function makeChoosable(id, items, choose) {
  items.forEach((item, number) => {
    item.tabIndex = number ? -1 : 0;
    item.addEventListener("click", () => {
      if (item.getAttribute("aria-pressed") === "true") clear();
      else choose(number);
    });
    item.addEventListener("focus", () => {
      items.forEach((other) => { other.tabIndex = other === item ? 0 : -1; });
    });
  });
  document.getElementById(id).addEventListener("keydown", (event) => walk(event, items, choose));
}

buttons.forEach((button, number) => { button.style.setProperty("--value", summaryRows[number].cells[3].textContent); });
makeChoosable("summary", buttons, choose);
if (words.some((word) => word.hasAttribute("role"))) makeChoosable("source", words, attend);
document.querySelectorAll("input[name=shade]").forEach((input) => {
  input.addEventListener("change", () => shade(Number(input.value)));
});
clear();
shade(Number(document.querySelector("input[name=shade]:checked").value));
