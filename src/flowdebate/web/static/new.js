// @ts-check
/** The form for a new run: it starts the run, and shows the request as text while the user is typing. */

import { element } from "./element.js";
import { addEntry, enable, jsonOf, keepDraft, read, refuse, settle, tell } from "./form.js";
import { ask, Refusal, root } from "./page.js";

const form = /** @type {HTMLFormElement} */ (document.querySelector("#new"));
const list = form.querySelector("[data-list]");
const subject = /** @type {HTMLTextAreaElement} */ (form.querySelector("#question"));

/** @typedef {{ name: string, stance?: string }} Speaker */
/** @type {Speaker[]} Sides named in the question, shown as placeholders. */
let implied = [];

/** The speakers' entries. */
const seats = () => /** @type {HTMLElement[]} */ ([...(list?.children ?? [])]);

/** The field called `name` in a seat. @param {Element} seat @param {string} name */
const input = (seat, name) => /** @type {HTMLInputElement | null} */ (seat.querySelector(`[data-name=${name}] :is(input, textarea)`));

/** The speakers as typed; a side left blank among others takes the values of its placeholders. */
function speakers() {
  const entries = seats().map((seat) => ({ typed: read(seat), human: Boolean(seat.querySelector("[data-human]:checked")) }));
  if (!entries.some(({ typed, human }) => human || Object.keys(typed).length)) return [];
  return entries.map(({ typed }, at) => ({ ...implied[at], ...typed })).filter((entry) => Object.keys(entry).length);
}

/** The request that starts the run. */
function request() {
  const { [form.dataset.subject ?? ""]: question = "", ...options } = read(form);
  const humans = people();
  if (list?.dataset.list) {
    const entries = speakers();
    delete options[list.dataset.list];
    if (entries.length) options[list.dataset.list] = entries;
  }
  if (humans.length) options.humans = humans;
  if (form.querySelector("[data-kind]:not([data-required])")) return { pattern: form.dataset.pattern, question, options };
  const data = jsonOf(question);
  return { pattern: form.dataset.pattern, question: typeof data === "object" ? data : question };
}

/** @type {{ name: string, content: File | string }[]} Material added so far. */
let added = [];
const pasted = /** @type {HTMLTextAreaElement | null} */ (form.querySelector("#material"));

/** Split a diff into its files, each with its own changes; any other text stays whole, under its name. @param {string} text @param {string} [name] */
function parts(text, name = "text") {
  const changes = text.split(/^(?=diff --git )/m).filter((each) => each.startsWith("diff --git "));
  const files = changes.length ? changes : text.split(/^(?=--- .+\n\+\+\+ )/m).filter((each) => /^--- .+\n\+\+\+ /.test(each));
  if (!files.length) return [{ name, content: text }];
  return files.map((content) => {
    const [, after] = /^\+\+\+ (?:b\/)?(.+?)\t?$/m.exec(content) ?? [];
    const [, before, moved] = /^(?:diff --git a\/.+ b\/(.+)|--- (?:a\/)?(.+?)\t?)$/m.exec(content) ?? [];
    return { name: after && after !== "/dev/null" ? after : (before ?? moved ?? name), content };
  });
}

/** All material by name, including the text in the field; duplicate names are numbered. */
function material() {
  const entries = [...added, ...(pasted?.value.trim() ? parts(pasted.value) : [])];
  const names = /** @type {Set<string>} */ (new Set());
  return entries.map(({ name, content }) => {
    let free = name;
    for (let number = 2; names.has(free); number++) free = `${name} (${number})`;
    names.add(free);
    return { name: free, content };
  });
}

/**
 * The request with its material: files as data URLs, or only by name.
 * @param {ReturnType<typeof request>} asked
 * @param {boolean} named
 */
async function withFiles(asked, named) {
  const entries = material();
  if (!entries.length) return asked;
  const contents = await Promise.all(
    entries.map(({ name, content }) => (typeof content === "string" ? content : named ? `(the content of ${name})` : urlOf(content))),
  );
  const sources = Object.fromEntries(entries.map(({ name }, at) => [name, contents[at]]));
  return { ...asked, question: asked.question || form.dataset.aboutMaterial || "", options: { ...asked.options, sources } };
}

/** @param {File} file @returns {Promise<string>} */
async function urlOf(file) {
  const reader = new FileReader();
  reader.readAsDataURL(file);
  await new Promise((done) => reader.addEventListener("loadend", done));
  return String(reader.result);
}

/** Add files to the material. @param {Iterable<File>} files */
async function addFiles(files) {
  for (const file of files) added.push(...(/\.(diff|patch)$/.test(file.name) ? parts(await file.text(), file.name) : [{ name: file.name, content: file }]));
  showMaterial();
}

/** List the added material, each item with a button to remove it. */
function showMaterial() {
  const rows = added.map((entry, at) => {
    const size = typeof entry.content === "string" ? entry.content.length : entry.content.size;
    const remove = element("button", { type: "button", "data-do": "drop", "data-at": String(at), "aria-label": `Remove ${entry.name}` }, "Remove");
    return element("li", {}, element("span", { class: "mono" }, entry.name), element("span", { class: "small" }, size < 1000 ? `${size} B` : `${Math.round(size / 1000).toLocaleString("en")} kB`), remove);
  });
  form.querySelector("[data-files]")?.replaceChildren(...rows);
  write();
}

for (const kind of ["dragover", "dragleave", "drop"]) {
  form.querySelector(".drop")?.addEventListener(kind, (event) => {
    const { dataTransfer } = /** @type {DragEvent} */ (event);
    if (!dataTransfer?.types.includes("Files")) return;
    event.preventDefault();
    /** @type {HTMLElement} */ (event.currentTarget).classList.toggle("over", kind === "dragover");
    if (kind === "drop") addFiles(dataTransfer.files);
  });
}

pasted?.addEventListener("paste", (event) => {
  const files = event.clipboardData?.files;
  if (!files?.length) return;
  event.preventDefault();
  addFiles(files);
});

form.querySelector("input[type=file]")?.addEventListener("change", async (event) => {
  const chooser = /** @type {HTMLInputElement} */ (event.target);
  await addFiles([...(chooser.files ?? [])]);
  chooser.value = "";
});

/** The names of the speakers played by people. */
function people() {
  const chosen = /** @type {HTMLInputElement[]} */ ([...form.querySelectorAll("[data-human]:checked")]);
  return chosen.map((each) => each.dataset.human || nameIn(each.closest("li"))).filter(Boolean);
}

/** The name in a seat, or the one given by the question. @param {HTMLElement | null} seat */
function nameIn(seat) {
  return (seat && (input(seat, "name")?.value || implied[seats().indexOf(seat)]?.name)) || "";
}

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  const button = /** @type {HTMLButtonElement} */ (form.querySelector("button.main"));
  settle(form);
  if (!subject.value.trim() && !("aboutMaterial" in form.dataset && material().length)) return refuse(form, form.dataset.subject ?? "", `Write the ${form.dataset.subject} first.`, "Nothing was started.");
  button.disabled = true;
  try {
    await refresh(); // the gray sides must be those of the current question
    if (seats().some((seat) => seat.querySelector("[data-human]:checked") && !nameIn(seat)))
      throw new Refusal("", [{ field: list?.dataset.list ?? "", problem: "Name the side that a person plays." }]);
    const run = await ask("POST", "/runs", await withFiles(request(), false));
    sent();
    location.assign(`${root}/runs/${encodeURIComponent(run.runId)}`);
  } catch (problem) {
    button.disabled = false;
    tell(form, problem, "Nothing was started.");
  }
});

let typed = 0;

/** Show the request as text, and the sides of its question, unless the user keeps typing. */
async function refresh() {
  const mine = ++typed;
  const written = await ask("POST", "/plans", await withFiles(request(), true)).catch(() => null);
  if (mine !== typed || written === null) return;
  const before = JSON.stringify(implied);
  show(written.speakers);
  if (JSON.stringify(implied) !== before) return refresh();
  for (const each of document.querySelectorAll("[data-as]")) each.textContent = written[/** @type {HTMLElement} */ (each).dataset.as ?? ""];
}

/** Refresh once the user has stopped typing for a moment. */
function write() {
  const mine = ++typed;
  setTimeout(() => mine === typed && refresh(), 200);
}

/** Show the question's sides where none are typed, or say that a model will propose them. @param {Speaker[]} speakers */
function show(speakers) {
  const example = /** @type {HTMLElement | null} */ (form.querySelector("[data-example]"));
  if (example) example.hidden = Boolean(subject.value.trim());
  const told = form.querySelector("[data-sides]");
  const propose = /** @type {HTMLButtonElement | null} */ (form.querySelector("[data-do=propose]"));
  if (!told || !propose || !list) return;
  const asked = Boolean(subject.value.trim());
  implied = asked ? speakers.map(({ name, stance }) => ({ name, stance })) : [];
  const blank = seats().every((seat) => !Object.keys(read(seat)).length && !seat.querySelector("[data-human]:checked"));
  while (seats().length < implied.length) addEntry(list).dataset.added = "";
  while (blank && seats().length > implied.length && "added" in (seats().at(-1)?.dataset ?? {})) seats().at(-1)?.remove();
  if (asked) {
    for (const [at, seat] of seats().entries()) {
      seat.toggleAttribute("data-implied", !blank && at < implied.length);
      for (const name of /** @type {const} */ (["name", "stance"])) {
        const field = input(seat, name);
        if (field) field.placeholder = implied[at]?.[name] ?? "";
      }
    }
  }
  propose.hidden = !asked || !blank || implied.length > 0;
  told.textContent = !blank
    ? "Write each side as a complete claim: that works better than “for” or “against”."
    : !asked
      ? "Leave them empty to debate the sides of your question."
      : implied.length
        ? "These are the sides of your question. Type over them to change them."
        : "Your question does not say what the sides are. The model proposes them when you start, which takes one more call.";
  number();
}

/** Let a model propose the sides, for the user to review and edit before the debate. @param {HTMLButtonElement} button */
async function propose(button) {
  settle(form);
  button.disabled = true;
  try {
    const { sides } = await ask("POST", "/sides", await withFiles(request(), false));
    while (list && seats().length < sides.length) addEntry(list);
    for (const [at, side] of sides.entries()) {
      for (const name of ["name", "stance"]) {
        const field = input(/** @type {HTMLElement} */ (seats()[at]), name);
        if (field) field.value = side[name];
      }
    }
    number();
    form.dispatchEvent(new Event("input", { bubbles: true }));
    input(/** @type {HTMLElement} */ (seats()[0]), "stance")?.focus();
  } catch (problem) {
    tell(form, problem, "No sides were proposed.");
  }
  button.disabled = false;
}

/** Number the speakers in their current order. */
function number() {
  for (const [at, entry] of seats().entries()) {
    entry.dataset.side = String((at % 5) + 1);
    const shown = entry.querySelector("[data-number]");
    if (shown) shown.textContent = String(at + 1);
  }
}

form.addEventListener("input", (event) => {
  const changed = /** @type {HTMLElement} */ (event.target);
  if (changed instanceof HTMLInputElement && changed.dataset.human === "") {
    const model = changed.closest(".field")?.querySelector("input");
    if (model) model.disabled = changed.checked;
  }
  write();
});

form.addEventListener("click", (event) => {
  const button = /** @type {HTMLElement} */ (event.target).closest("button[data-do]");
  if (!(button instanceof HTMLButtonElement)) return;
  const entries = button.closest("fieldset")?.querySelector("[data-list]");
  switch (button.dataset.do) {
    case "propose":
      return void propose(button);
    case "text":
      if (pasted?.value.trim()) added.push(...parts(pasted.value));
      if (pasted) pasted.value = "";
      pasted?.focus();
      return showMaterial();
    case "drop":
      added.splice(Number(button.dataset.at), 1);
      pasted?.focus();
      return showMaterial();
    case "add":
      if (entries) addEntry(entries).querySelector("input")?.focus();
      break;
    case "remove": {
      const entry = button.closest("li");
      const next = entry?.nextElementSibling ?? entry?.previousElementSibling;
      entry?.remove();
      /** @type {HTMLElement | null} */ (next?.querySelector("input") ?? entries?.parentElement?.querySelector("[data-do=add]") ?? null)?.focus();
    }
  }
  number();
  write();
});

for (const link of /** @type {NodeListOf<HTMLAnchorElement>} */ (document.querySelectorAll("a[data-pattern]"))) {
  link.addEventListener("click", () => {
    if (subject.value !== subject.defaultValue) link.search += `&question=${encodeURIComponent(subject.value)}`;
  });
}

// On a narrow screen, the row of patterns scrolls.
document.querySelector("a[data-pattern][aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });

for (const each of /** @type {NodeListOf<HTMLElement>} */ (form.querySelectorAll(":is([data-do=add], [data-do=text])"))) each.hidden = false;
enable(form);
const sent = keepDraft(form, "new");
number();
write();
