// @ts-check
/** A run as it goes on. The server makes the page of what is finished; here is who speaks now, token by token. */

import "./reading.js";
import { ask, become, copy, element, Refusal, root } from "./page.js";

const run = /** @type {HTMLElement} */ (document.querySelector("#run"));
const id = encodeURIComponent(run.dataset.run ?? "");

/** A turn in progress: the blocks of its text so far. @typedef {{path: string, name: string, side: number | null, html: string[]}} Turn */
/** @type {{turn: Turn, shown: HTMLElement}[]} */
let turns = [];
/** Since when somebody is at work, in seconds since 1970; null while nobody is. @type {number | null} */
let since = null;

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

/** Copy what was said, as Markdown. @param {HTMLButtonElement} button */
async function copyTurn(button) {
  const said = /** @type {HTMLElement | null} */ (button.closest(".turn")?.querySelector(".prose"));
  button.textContent = (await copy(button.dataset.copy || said?.innerText || "")) ? "Copied" : "Not copied";
  setTimeout(() => (button.textContent = "Copy"), 2000);
}

/** Make a public link of the run, and copy it. @param {string} shows */
async function publish(shows) {
  await change(async () => {
    const made = await ask("POST", `/runs/${id}/links`, { shows, seconds: 30 * 86_400 });
    const link = element("a", { href: made.page }, shows === "vote" ? "Blind vote" : "This run");
    const revoke = element("button", { type: "button", class: "quiet", "data-revoke": made.id }, "Revoke");
    document.querySelector("#shares ul")?.append(element("li", { "data-shared": made.id }, link, " for 30 days ", revoke));
    return (await copy(location.origin + made.page)) ? "Copied. Whoever has it can read this run." : "Copy its address from the list.";
  });
}

/** End a public link. @param {string} shared */
async function unpublish(shared) {
  await change(async () => {
    await ask("DELETE", `/runs/${id}/links/${encodeURIComponent(shared)}`);
    document.querySelector(`[data-shared="${CSS.escape(shared)}"]`)?.remove();
    return "Revoked: it shows nothing any more.";
  });
}

/** Say what a change of the public links came to. @param {() => Promise<string>} doing */
async function change(doing) {
  const told = document.querySelector("#shares [role=status]");
  const said = await doing().catch((problem) => (problem instanceof Refusal ? problem.message : String(problem)));
  if (told) told.textContent = said;
}

/** Make a link for whoever plays a role, and copy it. @param {HTMLButtonElement} button */
async function share(button) {
  button.disabled = true;
  try {
    const made = await ask("POST", `/runs/${id}/links`, { role: JSON.parse(button.dataset.link ?? ""), seconds: 7 * 86_400 });
    const link = location.origin + made.page;
    const shown = element("input", { readonly: "", value: link, "aria-label": "Link for a week, for this role alone" });
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
    return fork(form, told, { goes_on: { rounds: 1, ...(question ? { ask: question } : {}) } });
  }
  if (form.id === "both-orders") return fork(form, told, { schedule: "swap" });
  const note = form.querySelector("textarea")?.value ?? "";
  const problem = await ask("PUT", `/runs/${id}/note`, { note }).then(() => null, (found) => found);
  if (told) told.textContent = problem ? problem.message : note.trim() ? "Saved. Lists and exports have it as well." : "Deleted.";
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

/** Whether the page looks for answers to what the run waits for. */
let looking = false;

/** Show the run anew once it goes on, or somebody has answered what it waits for, wherever that was. */
async function look() {
  const asked = /** @type {HTMLElement[]} */ ([...document.querySelectorAll("[data-asks]")]).map((each) => JSON.parse(each.dataset.asks ?? ""));
  looking = asked.length > 0 || run.dataset.status === "awaiting"; // answered just now, it goes on in a moment
  if (!looking) return;
  const [state, now] = await Promise.all([ask("GET", `/runs/${id}`), ask("GET", `/runs/${id}/requests`)]).catch(() => []);
  const places = /** @type {{place: string}[]} */ (now ?? []).map((each) => each.place);
  if (state && (state.status !== run.dataset.status || places.join("\n") !== asked.join("\n"))) location.reload();
  else setTimeout(look, 3000);
}

function follow() {
  const events = new EventSource(`${root}/api/v1/runs/${id}/events?page=1`);
  const clock = setInterval(tellTime, 1000);
  /** @param {string} kind @param {(event: any) => void} react */
  const on = (kind, react) => events.addEventListener(kind, (message) => react(JSON.parse(/** @type {MessageEvent} */ (message).data)));

  on("page", (news) => keepAtEnd(() => showNews(news)));
  on("text", (event) => {
    const each = turns.find(({ turn }) => turn.path === event.path);
    if (each) keepAtEnd(() => show(each.shown, event.keep, event.html));
  });
  addEventListener("scroll", offer, { passive: true });
  latest?.addEventListener("click", () => toEnd());
  events.addEventListener("open", () => {
    run.removeAttribute("data-lost");
    say("");
  });
  events.addEventListener("error", () => void lost(events));
  const over = async () => {
    events.close();
    clearInterval(clock);
    document.querySelector("#live")?.remove();
    const before = new Set(run.querySelectorAll("#verdict"));
    await keepAtEnd(refresh);
    document.querySelector("#speaking")?.remove();
    document.querySelector("#board")?.removeAttribute("open");
    announce(before.size > 0);
    if ("live" in run.dataset) setTimeout(() => location.reload(), 1000); // it has been resumed meanwhile
  };
  events.addEventListener("end", over);
  events.addEventListener("problem", over);
}

/** Say why nothing comes, as far as that can be known, and come back. @param {EventSource} events */
async function lost(events) {
  if ("lost" in run.dataset) return;
  run.dataset.lost = ""; // nobody is seen to write, and no clock goes on
  say("The connection is lost. Trying again …");
  for (;;) {
    const answer = await fetch(`${root}/api/v1/runs/${id}`).catch(() => null);
    if (!("lost" in run.dataset)) return;
    if (answer?.ok && events.readyState === EventSource.CLOSED) return location.reload();
    if (!answer) say("The server does not answer. This page goes on by itself once it does.");
    else if (answer.status === 401) say("The server was started again with another token: open the address that it printed.");
    else if (!answer.ok) say("The server has this run no more.");
    await new Promise((done) => setTimeout(done, 1500));
  }
}

const latest = /** @type {HTMLElement | null} */ (document.querySelector("#latest"));
const said = /** @type {HTMLElement} */ (document.querySelector("#said"));

/** How far the end of what was said is below what can be seen of the page; negative where it is in sight. */
function beyond() {
  const bar = document.querySelector("#live")?.getBoundingClientRect().height ?? 0;
  return said.getBoundingClientRect().bottom - (innerHeight - bar);
}

/** A reader this many pixels above the end is still at it. */
const NEAR = 80;

/** Change the page, and show its end to whoever was there before. @param {() => unknown} change */
async function keepAtEnd(change) {
  const follows = beyond() < NEAR;
  const done = change();
  if (done instanceof Promise) await done;
  if (follows) toEnd();
  offer();
}

/** Show the end of what was said, where it is not in sight. */
function toEnd() {
  const further = beyond() + 16;
  if (further > 0) scrollBy({ top: further, behavior: "instant" });
  offer();
}

/** Offer what the reader does not see: the end of what was said, and the verdict. */
function offer() {
  if (latest) latest.hidden = beyond() < NEAR;
  const link = /** @type {HTMLElement | null} */ (document.querySelector("#to-verdict"));
  if (link) link.hidden = !document.querySelector("#verdict");
}

/** Say that the run is over to a reader who does not see its verdict. @param {boolean} known */
function announce(known) {
  const verdict = document.querySelector("#verdict");
  if (!verdict || known && verdict.getBoundingClientRect().bottom > 0) return;
  const link = element("a", { class: "button main", href: "#verdict" }, "See the verdict");
  const bar = element("div", { class: "status", id: "over", role: "region", "aria-label": "The end" });
  bar.append(element("div", { class: "page" }, element("p", { role: "status" }, "The run is over."), link));
  document.body.append(bar);
  new IntersectionObserver((seen) => seen.some((each) => each.isIntersecting) && bar.remove()).observe(verdict);
}

/** A piece of the page: it takes the place of the one with its id, or goes to the end of `at`. @typedef {{id: string, at: string, html: string, last?: string}} Piece */

/**
 * What the server has made of the run since the last time, or all of it.
 * @param {{whole: boolean, pieces: Piece[], speaking: Turn[], doing: string, since: number | null, calls: number, tokens: number}} news
 */
function showNews(news) {
  if (news.whole) {
    const all = /** @type {HTMLElement} */ (run.cloneNode(true));
    for (const name of ["said", "rounds", "steps", "tasks"])
      if (news.pieces.some((piece) => piece.at === name)) all.querySelector(`#${name}`)?.replaceChildren();
    for (const piece of news.pieces) put(all, piece);
    if (news.pieces.length) become(run, all);
  } else for (const piece of news.pieces) put(run, piece);
  const place = document.querySelector("#speaking");
  const before = turns;
  turns = news.speaking.map((turn) => ({ turn, shown: before.find((each) => each.turn.path === turn.path)?.shown ?? article(turn) }));
  place?.replaceChildren(...turns.map((each) => each.shown));
  for (const { turn, shown } of turns) show(shown, 0, turn.html);
  since = news.since;
  if (news.doing) say(news.doing);
  tell("#calls", news.calls ? `${news.calls} ${news.calls === 1 ? "call" : "calls"}` : "");
  tell("#tokens", news.tokens ? `${news.tokens.toLocaleString("en")} tokens` : "");
  tellTime();
}

/** @param {HTMLElement} page @param {Piece} piece */
function put(page, piece) {
  const template = document.createElement("template");
  template.innerHTML = piece.html;
  const made = /** @type {Element} */ (template.content.firstElementChild);
  const there = page.querySelector(`#${CSS.escape(piece.id)}`);
  if (there && !piece.last) return become(there, made);
  there?.remove();
  if (made.querySelector("#speaking")) page.querySelector("#speaking")?.remove(); // who speaks, speaks in the last round
  const place = page.querySelector(`#${CSS.escape(piece.at)}`);
  const before = place?.querySelector(piece.at === "run" ? ":scope > #reading" : ":scope > #speaking, :scope > [data-over]");
  place?.insertBefore(made, piece.last ? null : (before ?? null)); // tasks that are over come last
}

/** @param {Turn} turn */
function article(turn) {
  const head = element("h3", { class: "who" }, element("i", { class: "mark" }), turn.name);
  const side = turn.side === null ? {} : { "data-side": String(turn.side) };
  const attributes = { class: "turn", "aria-label": turn.name, "aria-busy": "true", ...side };
  return element("article", attributes, element("header", {}, head), element("div", { class: "prose" }));
}

/**
 * Show what is written of a turn: the server's blocks, from the one at `keep` on.
 * @param {HTMLElement} shown
 * @param {number} keep
 * @param {string[]} html
 */
function show(shown, keep, html) {
  const place = /** @type {HTMLElement} */ (shown.querySelector(".prose"));
  const template = document.createElement("template");
  template.innerHTML = html.join("\n");
  const blocks = [...template.content.children];
  let last = blocks.at(-1);
  while (last?.lastElementChild?.matches("ul, ol, li, blockquote, p, table, tbody, tr, td, code")) last = last.lastElementChild;
  last?.append(element("i", { class: "caret", role: "img", "aria-label": "still speaking" }));
  for (const extra of [...place.children].slice(keep + blocks.length)) extra.remove();
  blocks.forEach((block, at) => {
    const there = place.children[keep + at];
    if (there?.tagName === block.tagName) become(there, block);
    else if (there) there.replaceWith(block);
    else place.append(block);
  });
  shown.querySelector(".think")?.remove();
  if (!place.children.length) shown.querySelector("h3")?.append(thinking());
}

function thinking() {
  return element("span", { class: "think", role: "img", "aria-label": "thinking" }, element("i"), element("i"), element("i"));
}

function tellTime() {
  tell("#time", since === null || "lost" in run.dataset ? "" : `${Math.max(0, Math.round(Date.now() / 1000 - since))} s`);
}

/** @param {string} text */
function say(text) {
  tell("#doing", text);
}

/** @param {string} place @param {string} text */
function tell(place, text) {
  const there = document.querySelector(place);
  if (there && there.textContent !== text) there.textContent = text;
}

/** Make the page the one of a run that is over. */
async function refresh() {
  const answer = await fetch(location.href).catch(() => null);
  const page = answer?.ok ? new DOMParser().parseFromString(await answer.text(), "text/html") : null;
  const then = page?.querySelector("#run");
  if (!page || !then) return;
  become(run, then);
  document.title = page.title;
  listen();
}

/** Listen to the buttons of the page. */
function listen() {
  for (const each of /** @type {NodeListOf<HTMLButtonElement>} */ (run.querySelectorAll("#note button"))) each.disabled = false;
  for (const button of document.querySelectorAll("[data-do]")) {
    button.removeEventListener("click", act);
    button.addEventListener("click", act);
  }
  if (!looking) void look();
}

listen();
if ("live" in run.dataset) follow();
