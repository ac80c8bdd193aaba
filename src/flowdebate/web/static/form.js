// @ts-check
/** Forms: their values as JSON, and the server's error messages next to the fields. Only the server validates. */

import { element, Refusal } from "./element.js";

/** The fields and lists directly in one part of a form, excluding those of nested parts. @param {Element} scope */
function own(scope) {
  const all = /** @type {HTMLElement[]} */ ([...scope.querySelectorAll("[data-name], [data-list]")]);
  return all.filter((each) => each.parentElement?.closest("[data-scope]") === scope);
}

/**
 * The values of a form, or of part of it. If it is `whole`, required fields are included even if blank.
 * @param {Element} scope
 * @param {boolean} [whole]
 * @returns {Record<string, any>}
 */
export function read(scope, whole = false) {
  /** @type {Record<string, any>} */
  const found = {};
  for (const each of own(scope)) {
    if (each.dataset.list) {
      const entries = filled(each).map((entry) => read(entry));
      if (entries.length) found[each.dataset.list] = entries;
    } else if (each.dataset.kind) {
      const value = valueOf(each, whole);
      if (value !== undefined) found[each.dataset.name ?? ""] = value;
    }
  }
  return found;
}

/** The list entries to send: those that are filled in, or whose placeholders count as values. @param {Element} list */
function filled(list) {
  return [...list.children].filter((entry) => entry.hasAttribute("data-implied") || Object.keys(read(entry)).length);
}

/**
 * The value to send for a field, or undefined to leave it out.
 * @param {HTMLElement} field
 * @param {boolean} whole
 */
function valueOf(field, whole) {
  const kind = field.dataset.kind;
  const needed = whole && "required" in field.dataset;
  const inputs = /** @type {HTMLInputElement[]} */ ([...field.querySelectorAll("input, select, textarea")].filter((each) => !each.matches("[data-human]")));
  const [first] = inputs;
  if (kind === "group") {
    const value = read(field, whole);
    return needed || Object.keys(value).length ? value : undefined;
  }
  if (kind === "schema") return schemaOf(read(field).fields ?? []);
  if (!first || first.disabled) return undefined;
  if (kind === "flag") return whole || first.checked !== "on" in first.dataset ? first.checked : undefined;
  const several = first.type === "radio" || first.type === "checkbox";
  const chosen = inputs.filter((each) => !several || each.checked).map((each) => each.value);
  if (kind === "choices") return chosen.length || needed ? chosen.map((each) => JSON.parse(each)) : undefined;
  const text = chosen[0] ?? "";
  if (!text.trim()) {
    if (!needed) return undefined;
    if ("nullable" in field.dataset && !several) return null;
    return kind === "lines" || kind === "numbers" ? [] : kind === "long" || kind === "text" ? "" : undefined;
  }
  switch (kind) {
    case "number":
      return numberOf(text);
    case "mixed":
      return { off: false, false: false, true: true }[text.trim()] ?? numberOf(text);
    case "lines":
      return text.split("\n").map((line) => line.trim()).filter(Boolean);
    case "numbers":
      return text.split(/[\s,;]+/).filter(Boolean).map(numberOf);
    case "pairs":
      return pairsOf(text);
    case "choice":
    case "json":
      return jsonOf(text);
    default:
      return text;
  }
}

/** The number, or the invalid text for the server to reject. @param {string} text */
function numberOf(text) {
  return /^\s*[-+]?(\d+\.?\d*|\.\d+)\s*$/.test(text) ? Number(text) : text.trim();
}

/** Values by name, from lines such as "Planner=2"; if a line is invalid, the text for the server to reject. @param {string} text */
function pairsOf(text) {
  const lines = text.split("\n").map((line) => line.trim()).filter(Boolean);
  if (!lines.every((line) => line.lastIndexOf("=") > 0)) return text;
  return Object.fromEntries(lines.map((line) => [line.slice(0, line.lastIndexOf("=")).trim(), numberOf(line.slice(line.lastIndexOf("=") + 1))]));
}

/** @type {Record<string, object>} */
const TYPES = {
  Text: { type: "string" },
  Number: { type: "number" },
  "Whole number": { type: "integer" },
  "Yes or no": { type: "boolean" },
  "List of texts": { type: "array", items: { type: "string" } },
};

/** The JSON Schema for an object with these fields, or undefined if there are none. @param {Record<string, string>[]} fields */
function schemaOf(fields) {
  const named = fields.filter(({ name }) => name); // the type is prefilled, so it says nothing
  if (!named.length) return undefined;
  const properties = Object.fromEntries(
    named.map(({ name, type = "Text", description }) => [name, { ...TYPES[type], ...(description ? { description } : {}) }]),
  );
  return { type: "object", properties, required: named.map(({ name }) => name), additionalProperties: false };
}

/** The parsed JSON, or the invalid text for the server to reject. @param {string} text */
export function jsonOf(text) {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/**
 * The field named by an error, such as `debaters[1].stance`, or the nearest enclosing one.
 * @param {Element} form
 * @param {string} path
 */
function fieldOf(form, path) {
  let scope = form;
  /** @type {HTMLElement | null} */
  let found = null;
  for (const part of path.split(/[.[\]]+/).filter(Boolean)) {
    const list = /^\d+$/.test(part) && found?.querySelector("[data-list]");
    const entry = list ? filled(list)[Number(part)] : null;
    const named = own(scope).find((each) => each.dataset.name === part || each.dataset.flag === part);
    if (entry) scope = entry;
    else if (named) {
      found = named;
      if ("scope" in named.dataset) scope = named;
    } else break;
  }
  return found;
}

/**
 * Show what the server rejected, next to the fields and above the form.
 * @param {HTMLFormElement} form
 * @param {unknown} problem
 * @param {string} title
 */
export function tell(form, problem, title) {
  settle(form);
  const place = /** @type {HTMLElement} */ (form.querySelector("#problems"));
  const errors = problem instanceof Refusal ? problem.errors : [];
  const list = element("ul");
  let first = /** @type {HTMLElement | null} */ (null);
  for (const { field, problem } of errors) {
    const there = field === "" ? /** @type {HTMLElement | null} */ (form.querySelector("[data-name='']")) : fieldOf(form, field);
    if (there) at(there, problem);
    else list.append(element("li", {}, field ? `${field}: ${problem}` : problem));
    first ??= there;
  }
  const said = problem instanceof Error ? problem.message : String(problem);
  place.className = "bad";
  place.replaceChildren(element("p", {}, element("b", {}, title), ` ${errors.length ? "" : said}`), ...(list.childElementCount ? [list] : []));
  const input = /** @type {HTMLElement | null} */ (first?.querySelector("input, select, textarea") ?? null);
  (input ?? place).focus();
}

/** Reject a blank field without asking the server. @param {HTMLFormElement} form @param {string} field @param {string} problem @param {string} title */
export function refuse(form, field, problem, title) {
  tell(form, new Refusal(problem, [{ field, problem }]), title);
}

const inputs = (/** @type {HTMLFormElement} */ form) =>
  /** @type {HTMLInputElement[]} */ ([...form.elements].filter((each) => each.matches("input:not([type=file]), select, textarea")));

/**
 * Keep a form's input in this tab until it is sent, even across reloads, and restore what was typed before.
 * @param {HTMLFormElement} form
 * @param {string} name
 * @returns {() => void} call this once the form has been sent
 */
export function keepDraft(form, name) {
  const key = `draft:${location.pathname}${location.search}:${name}`;
  const lists = /** @type {HTMLElement[]} */ ([...form.querySelectorAll("[data-list]")]);
  const { counts = [], values = [] } = JSON.parse(sessionStorage.getItem(key) ?? "{}");
  lists.forEach((list, at) => {
    while (list.children.length < (counts[at] ?? 0)) addEntry(list);
  });
  const now = inputs(form);
  if (values.length === now.length)
    now.forEach((each, at) => {
      if (typeof values[at] === "boolean") each.checked = Boolean(values[at]);
      else each.value = String(values[at]);
    });
  form.addEventListener("input", () => {
    const typed = inputs(form).map((each) => (each.type === "checkbox" || each.type === "radio" ? each.checked : each.value));
    sessionStorage.setItem(key, JSON.stringify({ counts: lists.map((list) => list.children.length), values: typed }));
  });
  return () => sessionStorage.removeItem(key);
}

/** Add a blank entry to a list, from the template next to it. @param {Element} list */
export function addEntry(list) {
  const template = /** @type {HTMLTemplateElement} */ (list.parentElement?.querySelector(":scope > template"));
  list.append(template.content.cloneNode(true));
  return /** @type {HTMLElement} */ (list.lastElementChild);
}

/** @param {HTMLElement} field @param {string} problem */
function at(field, problem) {
  for (let fold = field.closest("details"); fold; fold = fold.parentElement?.closest("details") ?? null) fold.open = true;
  const id = `problem-${document.querySelectorAll(".problem").length}`;
  field.classList.add("bad");
  const direct = field.querySelector("input, select, textarea");
  direct?.setAttribute("aria-invalid", "true");
  direct?.setAttribute("aria-errormessage", id);
  field.append(element("p", { class: "problem", id }, problem));
}

/** Enable submit buttons, which are disabled without JavaScript. @param {ParentNode} page */
export function enable(page) {
  for (const each of /** @type {NodeListOf<HTMLButtonElement>} */ (page.querySelectorAll("button.main:disabled"))) each.disabled = false;
}

/** Clear the problems from the previous attempt. @param {HTMLFormElement} form */
export function settle(form) {
  for (const each of form.querySelectorAll(".field > .problem")) each.remove();
  for (const each of form.querySelectorAll("[aria-invalid]")) {
    each.removeAttribute("aria-invalid");
    each.removeAttribute("aria-errormessage");
  }
  for (const each of form.querySelectorAll(".bad")) each.classList.remove("bad");
  form.querySelector("#problems")?.replaceChildren();
}
