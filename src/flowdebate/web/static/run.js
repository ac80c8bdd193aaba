// @ts-check
/** A run on its owner's page: followed, with actions. */

import "./reading.js";
import { follow } from "./live.js";
import { ask, copy, element, Refusal, root, seen } from "./page.js";

const run = /** @type {HTMLElement} */ (document.querySelector("#run"));
const id = encodeURIComponent(run.dataset.run ?? "");

/** @param {Event} event */
async function act(event) {
  const button = /** @type {HTMLButtonElement} */ (event.currentTarget);
  const what = button.dataset.do;
  if (what === "delete" && !confirm("Delete this run and its journal?")) return;
  button.disabled = true;
  try {
    await (what === "delete" ? ask("DELETE", `/runs/${id}`) : ask("POST", `/runs/${id}/${what}`));
    if (what === "delete") location.assign(`${root}/`);
    else if (what === "resume") location.reload();
  } catch (problem) {
    button.disabled = false;
    button.after(element("p", { class: "problem", role: "alert" }, problem instanceof Refusal ? problem.message : String(problem)));
  }
}

run.addEventListener("click", (event) => {
  const button = /** @type {Element} */ (event.target).closest("[data-link], [data-copy], [data-share], [data-revoke]");
  if (!(button instanceof HTMLButtonElement)) return;
  const { copy: said, share: shows, revoke } = button.dataset;
  void (said !== undefined ? copyTurn(button) : shows ? publish(shows) : revoke ? unpublish(revoke) : share(button));
});

/** Copy a turn's text, as Markdown if that is what its model wrote. @param {HTMLButtonElement} button */
async function copyTurn(button) {
  const said = /** @type {HTMLElement | null} */ (button.closest(".turn")?.querySelector(".prose"))?.innerText ?? "";
  const number = button.dataset.copy;
  button.textContent = (await copy(number ? written(number) : said)) ? "Copied" : "Not copied";
  setTimeout(() => (button.textContent = "Copy"), 2000);
}

/** The text of a turn as its model wrote it. @param {string} number */
async function written(number) {
  const answer = await fetch(`${root}/runs/${id}/turns/${number}`);
  if (!answer.ok) throw new Refusal(`The server answered ${answer.status}.`, []);
  return answer.text();
}

/** Create a public link to the run, and copy it. @param {string} shows */
async function publish(shows) {
  await change(async () => {
    const made = await ask("POST", `/runs/${id}/links`, { shows, seconds: 30 * 86_400 });
    const link = element("a", { href: made.page }, shows === "vote" ? "Blind vote" : "This run");
    const revoke = element("button", { type: "button", class: "quiet", "data-revoke": made.id }, "Revoke");
    document.querySelector("#shares ul")?.append(element("li", { "data-shared": made.id }, link, " for 30 days ", revoke));
    return (await copy(location.origin + made.page)) ? "Copied. Anyone with the link can read this run." : "Copy its address from the list.";
  });
}

/** Revoke a public link. @param {string} shared */
async function unpublish(shared) {
  await change(async () => {
    await ask("DELETE", `/runs/${id}/links/${encodeURIComponent(shared)}`);
    document.querySelector(`[data-shared="${CSS.escape(shared)}"]`)?.remove();
    return "Revoked. The link no longer works.";
  });
}

/** Show the outcome of a change to the public links. @param {() => Promise<string>} doing */
async function change(doing) {
  const told = document.querySelector("#shares [role=status]");
  const said = await doing().catch((problem) => (problem instanceof Refusal ? problem.message : String(problem)));
  if (told) told.textContent = said;
}

/** Create a link for the person playing a role, and copy it. @param {HTMLButtonElement} button */
async function share(button) {
  button.disabled = true;
  try {
    const made = await ask("POST", `/runs/${id}/links`, { role: JSON.parse(button.dataset.link ?? ""), seconds: 7 * 86_400 });
    const link = location.origin + made.page;
    const shown = element("input", { readonly: "", value: link, "aria-label": "Link for this role only, valid for a week" });
    const copied = await copy(link);
    button.replaceWith(shown, element("span", { role: "status" }, copied ? "Copied. Valid for a week." : "Valid for a week."));
    /** @type {HTMLInputElement} */ (shown).select();
  } catch (problem) {
    button.disabled = false;
    button.after(element("p", { class: "problem", role: "alert" }, problem instanceof Refusal ? problem.message : String(problem)));
  }
}

run.addEventListener("submit", async (event) => {
  event.preventDefault();
  const form = /** @type {HTMLFormElement} */ (event.target);
  const told = form.querySelector("[role=status]");
  if (form.id === "go-on") {
    const question = form.querySelector("textarea")?.value.trim();
    return fork(form, told, { continuation: { rounds: 1, ...(question ? { ask: question } : {}) } });
  }
  if (form.id === "both-orders") return fork(form, told, { schedule: "swap" });
  const note = form.querySelector("textarea")?.value ?? "";
  const problem = await ask("PUT", `/runs/${id}/note`, { note }).then(() => null, (found) => found);
  if (told) told.textContent = problem ? problem.message : note.trim() ? "Saved. Lists and exports show it too." : "Deleted.";
});

/**
 * Fork the finished debate with other options, and go to the fork.
 * @param {HTMLFormElement} form
 * @param {Element | null} told
 * @param {Record<string, unknown>} options
 */
async function fork(form, told, options) {
  const button = /** @type {HTMLButtonElement} */ (form.querySelector("button"));
  button.disabled = true;
  try {
    const made = await ask("POST", `/runs/${id}/fork`, { options });
    location.assign(`${root}/runs/${encodeURIComponent(made.runId)}`);
  } catch (problem) {
    button.disabled = false;
    if (told) told.textContent = problem instanceof Refusal ? problem.message : String(problem);
  }
}

/** Whether the page is checking for answers that the run is waiting for. */
let looking = false;

/** Reload once the run continues, or once somebody has answered its requests, no matter where. */
async function look() {
  const asked = /** @type {HTMLElement[]} */ ([...document.querySelectorAll("[data-asks]")]).map((each) => JSON.parse(each.dataset.asks ?? ""));
  await seen();
  looking = asked.length > 0 || run.dataset.status === "awaiting"; // if just answered, the run continues in a moment
  if (!looking) return;
  const [state, now] = await Promise.all([ask("GET", `/runs/${id}`), ask("GET", `/runs/${id}/requests`)]).catch(() => []);
  const places = /** @type {{place: string}[]} */ (now ?? []).map((each) => each.place);
  const isNew = state && (state.status !== run.dataset.status || places.join("\n") !== asked.join("\n"));
  const seenAs = isNew ? JSON.stringify([state.status, places]) : "";
  const isReloaded = sessionStorage.getItem(`reloaded:${id}`) === seenAs;
  sessionStorage.setItem(`reloaded:${id}`, seenAs);
  if (isNew && !isReloaded) location.reload(); // only once per change
  else setTimeout(look, 3000);
}

/** Attach the page's buttons. */
function listen() {
  for (const each of /** @type {NodeListOf<HTMLButtonElement>} */ (run.querySelectorAll("#note button"))) each.disabled = false;
  for (const button of document.querySelectorAll("[data-do]")) {
    button.removeEventListener("click", act);
    button.addEventListener("click", act);
  }
  if (!looking) void look();
}

listen();
if ("live" in run.dataset) void follow(`${root}/api/v1/runs/${id}/events?page=1`, listen);
