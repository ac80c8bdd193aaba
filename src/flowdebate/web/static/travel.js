// @ts-check
/** Time travel: a slider over the steps of a run, and forks from the selected step. */

import { ask, become, element, Refusal, root } from "./page.js";

const id = location.pathname.split("/").at(-2);
const slider = /** @type {HTMLInputElement | null} */ (document.querySelector("#slider"));

if (slider) {
  slider.hidden = false;
  if (!document.querySelector("#pick .crowded")) slider.style.setProperty("--n", slider.max);
  slider.addEventListener("input", tell);
  slider.addEventListener("change", () => go(Number(slider.value)));
  document.querySelector("#pick")?.addEventListener("click", (event) => {
    const link = /** @type {HTMLElement} */ (event.target).closest("a");
    if (!link || event.defaultPrevented || /** @type {MouseEvent} */ (event).metaKey || /** @type {MouseEvent} */ (event).ctrlKey) return;
    event.preventDefault();
    void go(Number(new URL(link.href).searchParams.get("step")));
  });
  tell();
  prepare();
}

/** Show which step the slider is at. */
function tell() {
  if (!slider) return;
  const links = [...document.querySelectorAll("#pick .steps a")];
  slider.setAttribute("aria-valuetext", links[Number(slider.value) - 1]?.getAttribute("aria-label") ?? slider.value);
  links.forEach((link, at) => {
    if (at + 1 === Number(slider.value)) link.parentElement?.setAttribute("aria-current", "step");
    else link.parentElement?.removeAttribute("aria-current");
  });
}

let asked = 0;

/** Show another step. @param {number} step */
async function go(step) {
  const mine = ++asked;
  const answer = await fetch(`?step=${step}`, { headers: { accept: "text/html" } }).catch(() => null);
  if (mine !== asked) return;
  const then = answer?.ok ? new DOMParser().parseFromString(await answer.text(), "text/html").querySelector("#moment") : null;
  const now = document.querySelector("#moment");
  if (!then || !now || !slider) {
    location.assign(`?step=${step}`);
    return;
  }
  become(now, then);
  history.replaceState(null, "", `?step=${step}`);
  slider.value = String(step);
  tell();
  prepare();
}

/** Make the step's answer editable. */
function prepare() {
  const form = /** @type {HTMLFormElement | null} */ (document.querySelector("form[data-place]"));
  const field = form?.querySelector("textarea");
  if (!form || !field) return;
  const article = document.querySelector(`#said-${form.dataset.step}`);
  if (article instanceof HTMLElement) article.hidden = true;
  form.hidden = false;
  const update = () => {
    const changed = field.value !== field.defaultValue;
    for (const each of /** @type {NodeListOf<HTMLElement>} */ (form.querySelectorAll("[data-same]")))
      each.textContent = (changed ? each.dataset.changed : each.dataset.same) ?? "";
    const undo = /** @type {HTMLButtonElement} */ (form.querySelector("[type=reset]"));
    undo.disabled = !changed;
  };
  field.oninput = update;
  form.onreset = () => setTimeout(() => (refuse(form, field, []), update()));
  form.onsubmit = (event) => {
    event.preventDefault();
    void fork(form, field);
  };
  update();
}

/**
 * @param {HTMLFormElement} form
 * @param {HTMLTextAreaElement} field
 */
async function fork(form, field) {
  const place = form.dataset.place ?? "";
  const button = /** @type {HTMLButtonElement} */ (form.querySelector("button.main"));
  refuse(form, field, []);
  button.disabled = true;
  try {
    const body = field.value === field.defaultValue ? { at: place } : { edits: { [place]: field.value } };
    const run = await ask("POST", `/runs/${id}/fork`, body);
    location.assign(`${root}/runs/${encodeURIComponent(run.runId)}`);
  } catch (problem) {
    button.disabled = false;
    if (!(problem instanceof Refusal)) throw problem;
    const named = problem.errors.map(({ field: name, problem: what }) => (name && !name.startsWith("edits") ? `${name} ${what}` : what));
    refuse(form, field, named.length ? named : [problem.message]);
  }
}

/**
 * Show next to the field why its value was rejected, or nothing if there is no problem.
 * @param {HTMLFormElement} form
 * @param {HTMLTextAreaElement} field
 * @param {string[]} problems
 */
function refuse(form, field, problems) {
  form.querySelector(".problem")?.remove();
  const around = field.parentElement;
  around?.classList.toggle("bad", problems.length > 0);
  field.toggleAttribute("aria-invalid", false);
  if (!problems.length) return;
  field.setAttribute("aria-invalid", "true");
  around?.append(element("ul", { class: "problem", role: "alert" }, ...problems.map((each) => element("li", {}, each))));
  field.focus();
}
