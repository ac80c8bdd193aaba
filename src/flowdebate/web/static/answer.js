// @ts-check
/** A person's answer. If it is not yet the person's turn, the page keeps checking. */

import { enable, keepDraft, read, refuse, settle, tell } from "./form.js";
import { ask, become } from "./page.js";

const SECONDS = 1.5;
const page = /** @type {HTMLElement} */ (document.querySelector("#answer"));
const by = page.dataset.to ?? "";
const then = page.dataset.then ?? "";

page.addEventListener("submit", async (event) => {
  event.preventDefault();
  const form = /** @type {HTMLFormElement} */ (event.target);
  const button = /** @type {HTMLButtonElement} */ (form.querySelector("button.main"));
  const found = read(form, true);
  settle(form);
  if (typeof found[""] === "string" && !found[""].trim()) return refuse(form, "", "Write an answer first.", "Nothing was sent.");
  button.disabled = true;
  try {
    await ask("POST", by, { answer: "" in found ? found[""] : found, place: JSON.parse(form.dataset.place ?? "") });
    sent();
    if (then) location.assign(then);
    else await look(true);
  } catch (problem) {
    button.disabled = false;
    tell(form, problem, "Nothing was sent.");
  }
});

/** Show the current page, and check again until it is this person's turn. @param {boolean} [again] */
async function look(again = false) {
  const seen = again ? "" : (page.dataset.seen ?? "");
  const answer = await fetch(`?seen=${encodeURIComponent(seen)}`).catch(() => null);
  if (answer?.status === 200) {
    const now = new DOMParser().parseFromString(await answer.text(), "text/html");
    const next = now.querySelector("#answer");
    if (next) become(page, next);
    begin();
    document.title = now.title;
    const field = /** @type {HTMLElement | null} */ (page.querySelector("form :is(textarea, input, select)"));
    (field ?? /** @type {HTMLElement} */ (document.querySelector("#main"))).focus();
  }
  if (answer?.status === 404) location.reload(); // the link is no longer valid, and the page says so
  else wait();
}

function wait() {
  if ("waits" in page.dataset) setTimeout(look, 1000 * SECONDS);
}

let sent = () => {};

/** Enable the form, and restore what was typed before a reload. */
function begin() {
  enable(page);
  const form = page.querySelector("form");
  if (form) sent = keepDraft(form, form.dataset.place ?? "");
}

begin();
wait();
