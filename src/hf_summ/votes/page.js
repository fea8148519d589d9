"use strict";
// The page holds all items. This script shows one at a time, stores the choices, and writes them to a file at the end.
const byId = (id) => document.getElementById(id);
const { sheet } = document.querySelector("main").dataset;
const items = [...document.querySelectorAll(".item")];
const places = [...items, byId("end")];
const otherTabs = new BroadcastChannel(`hf-summ votes ${sheet}`);
// not localStorage: in Chromium, some tabs that open a file get a separate store, which ends with the tab
const database = new Promise((resolve) => {
  const opening = indexedDB.open("hf-summ votes");
  opening.onupgradeneeded = () => opening.result.createObjectStore("sheets");
  resolve(finished(opening));
});
let place = 0;

function votes() {
  return items.map((item) => {
    const row = { sheet, item: item.dataset.item };
    item.querySelectorAll("fieldset").forEach((aspect) => {
      row[aspect.dataset.aspect] = aspect.querySelector(":checked")?.value ?? null;
    });
    return row;
  });
}

const isOpen = (item) => [...item.querySelectorAll("fieldset")].some((aspect) => !aspect.querySelector(":checked"));

function finished(request) {
  return new Promise((resolve, reject) => {
    request.onsuccess = request.oncomplete = () => resolve(request.result);
    request.onerror = request.onabort = () => reject(request.error);
  });
}

async function keep() {
  const kept = { place, votes: votes() };
  try {
    const writing = (await database).transaction("sheets", "readwrite");
    writing.objectStore("sheets").put(kept, sheet);
    await finished(writing);
    otherTabs.postMessage(kept.votes);
    byId("kept").textContent = "Your votes are saved in this browser: you can close the page and continue later.";
  } catch {
    byId("kept").textContent = "This browser cannot save votes: do not close the page before you have downloaded them.";
  }
}

function fill(kept) {
  kept.forEach((row) => {
    const item = items.find((other) => other.dataset.item === row.item);
    item?.querySelectorAll("fieldset").forEach((aspect) => {
      aspect.querySelectorAll("input").forEach((input) => {
        input.checked = input.value === row[aspect.dataset.aspect];
      });
    });
  });
}

async function restore() {
  try {
    const kept = await finished((await database).transaction("sheets").objectStore("sheets").get(sheet));
    fill(kept?.votes ?? []);
    return Math.min(Math.max(Math.trunc(kept?.place) || 0, 0), items.length);
  } catch {
    return 0;
  }
}

function showProgress() {
  const open = items.filter(isOpen).length;
  const done = items.length - open;
  byId("progress").textContent = `${done} of ${items.length} done`;
  byId("open").hidden = open === 0;
  byId("caption").textContent = open
    ? `${open} of ${items.length} are unanswered. You can send your votes as they are, or continue.`
    : "All questions are answered. Thank you!";
  const text = `${JSON.stringify(votes(), null, 1)}\n`;
  byId("votes").value = text;
  URL.revokeObjectURL(byId("download").href);
  byId("download").href = URL.createObjectURL(new Blob([text], { type: "application/json" }));
}

function show(next) {
  place = next;
  places.forEach((section, number) => { section.hidden = number !== place; });
  byId("previous").disabled = place === 0;
  byId("next").hidden = place === items.length;
  byId("next").textContent = place === items.length - 1 ? "Review your votes" : "Next";
  showProgress();
}

function go(next) {
  show(next);
  keep();
  // screen readers announce the heading, and Tab continues from there
  places[place].querySelector("h2").focus();
  window.scrollTo(0, 0);
}

byId("previous").addEventListener("click", () => go(place - 1));
byId("next").addEventListener("click", () => go(place + 1));
byId("open").addEventListener("click", () => go(items.findIndex(isOpen)));
byId("votes").addEventListener("focus", () => byId("votes").select());
document.querySelector("main").addEventListener("change", () => {
  showProgress();
  keep();
});
otherTabs.addEventListener("message", (event) => {
  fill(event.data);
  showProgress();
});
restore().then((kept) => {
  show(kept);
  keep();
});
