// @ts-check
/** The form of a new run: it begins the run, and shows the request as text while it is typed. */

import { enable, jsonOf, keepDraft, read, refuse, settle, tell } from "./form.js";
import { ask, root } from "./page.js";

const form = /** @type {HTMLFormElement} */ (document.querySelector("#new"));
const list = form.querySelector("[data-list]");
const subject = /** @type {HTMLTextAreaElement} */ (form.querySelector("#question"));

/** The request to begin the run. */
function request() {
  const { [form.dataset.subject ?? ""]: question = "", ...options } = read(form);
  const humans = people();
  if (humans.length) options.humans = humans;
  if (form.querySelector("[data-kind]:not([data-required])")) return { pattern: form.dataset.pattern, question, options };
  const data = jsonOf(question);
  return { pattern: form.dataset.pattern, question: typeof data === "object" ? data : question };
}

/**
 * The request with the files that were chosen, by their names: as data URLs, or only named.
 * @param {ReturnType<typeof request>} asked
 * @param {boolean} named
 */
async function withFiles(asked, named) {
  const chosen = [.../** @type {HTMLInputElement | null} */ (form.querySelector("input[type=file]"))?.files ?? []];
  const texts = asked.options?.sources ?? {};
  if (!chosen.length || typeof texts !== "object") return asked;
  const read = named ? chosen.map((file) => `(the content of ${file.name})`) : await Promise.all(chosen.map(urlOf));
  const sources = { ...texts, ...Object.fromEntries(chosen.map((file, at) => [file.name, read[at]])) };
  return { ...asked, options: { ...asked.options, sources } };
}

/** @param {File} file @returns {Promise<string>} */
async function urlOf(file) {
  const reader = new FileReader();
  reader.readAsDataURL(file);
  await new Promise((done) => reader.addEventListener("loadend", done));
  return String(reader.result);
}

/** The names of those whom people play. */
function people() {
  const chosen = /** @type {HTMLInputElement[]} */ ([...form.querySelectorAll("[data-human]:checked")]);
  return chosen.map((each) => each.dataset.human || each.closest("li")?.querySelector("input")?.value || "").filter(Boolean);
}

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  const button = /** @type {HTMLButtonElement} */ (form.querySelector("button.main"));
  settle(form);
  if (!subject.value.trim()) return refuse(form, form.dataset.subject ?? "", "Write this first.", "Nothing was started.");
  button.disabled = true;
  try {
    const run = await ask("POST", "/runs", await withFiles(request(), false));
    sent();
    location.assign(`${root}/runs/${encodeURIComponent(run.runId)}`);
  } catch (problem) {
    button.disabled = false;
    tell(form, problem, "Nothing was started.");
  }
});

let typed = 0;

/** Show the request as text once nothing is typed for a moment. */
function write() {
  const mine = ++typed;
  setTimeout(async () => {
    if (mine !== typed) return;
    const written = await ask("POST", "/plans", await withFiles(request(), true)).catch(() => null);
    if (mine !== typed || written === null) return;
    for (const each of document.querySelectorAll("[data-as]")) each.textContent = written[/** @type {HTMLElement} */ (each).dataset.as ?? ""];
  }, 200);
}

function addSpeaker() {
  const template = /** @type {HTMLTemplateElement | null} */ (form.querySelector("#speaker"));
  if (template) list?.append(template.content.cloneNode(true));
}

/** Number the speakers as they stand. */
function number() {
  const entries = /** @type {HTMLElement[]} */ ([...(list?.children ?? [])]);
  for (const [at, entry] of entries.entries()) {
    entry.dataset.side = String((at % 5) + 1);
    const shown = entry.querySelector("[data-number]");
    if (shown) shown.textContent = String(at + 1);
  }
  write();
}

form.addEventListener("input", (event) => {
  const input = /** @type {HTMLInputElement} */ (event.target);
  if (input.dataset.human === "") {
    const model = input.closest(".field")?.querySelector("input");
    if (model) model.disabled = input.checked;
  }
  write();
});

form.addEventListener("click", (event) => {
  const button = /** @type {HTMLElement} */ (event.target).closest("button[data-do]");
  if (!(button instanceof HTMLButtonElement)) return;
  if (button.dataset.do === "add") {
    addSpeaker();
    list?.lastElementChild?.querySelector("input")?.focus();
  } else {
    const entry = button.closest("li");
    const next = entry?.nextElementSibling ?? entry?.previousElementSibling;
    entry?.remove();
    (next?.querySelector("input") ?? form.querySelector("[data-do=add]"))?.focus();
  }
  number();
});

for (const link of /** @type {NodeListOf<HTMLAnchorElement>} */ (document.querySelectorAll("a[data-pattern]"))) {
  link.addEventListener("click", () => {
    if (subject.value !== subject.defaultValue) link.search += `&question=${encodeURIComponent(subject.value)}`;
  });
}

const add = /** @type {HTMLButtonElement | null} */ (form.querySelector("[data-do=add]"));
if (add) add.hidden = false;
enable(form);
const sent = keepDraft(form, "new", addSpeaker);
number();
write();
