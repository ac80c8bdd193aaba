// @ts-check
/** A run as it goes on. The server makes the page of what is finished; here is who speaks now, token by token. */

import { ask, become, element, Refusal, root } from "./page.js";

const run = /** @type {HTMLElement} */ (document.querySelector("#run"));
const id = encodeURIComponent(run.dataset.run ?? "");

/** A call of a model that has not been answered yet. @typedef {{block: string, role?: string, since: number}} Open */
/** @type {Map<string, Open>} */
const calls = new Map();
/** Whose turn each path is, while it lasts. @type {Map<string, {name: string, turn: HTMLElement | null, text: string}>} */
const turns = new Map();
/** The names of those who have spoken, by block. @type {Map<string, string>} */
const names = new Map();
const spent = { calls: 0, tokens: 0 };
const began = Date.now();

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
  const button = /** @type {Element} */ (event.target).closest("[data-link]");
  if (button instanceof HTMLButtonElement) void share(button);
});

/** Make a link for whoever plays a role, and copy it. @param {HTMLButtonElement} button */
async function share(button) {
  button.disabled = true;
  try {
    const made = await ask("POST", `/runs/${id}/links`, { role: JSON.parse(button.dataset.link ?? ""), seconds: 7 * 86_400 });
    const link = location.origin + made.page;
    const shown = element("input", { readonly: "", value: link, "aria-label": "Link for a week, for this role alone" });
    const copied = await navigator.clipboard?.writeText(link).then(() => true, () => false);
    button.replaceWith(shown, element("span", { role: "status" }, copied ? "Copied. Valid for a week." : "Valid for a week."));
    /** @type {HTMLInputElement} */ (shown).select();
  } catch (problem) {
    button.disabled = false;
    button.after(element("p", { class: "problem", role: "alert" }, problem instanceof Refusal ? problem.message : String(problem)));
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
  const events = new EventSource(`${root}/api/v1/runs/${id}/events`);
  const clock = setInterval(tellWork, 1000);
  /** @param {string} kind @param {(event: any) => void} react */
  const on = (kind, react) =>
    events.addEventListener(kind, (message) => {
      react(JSON.parse(/** @type {MessageEvent} */ (message).data || "null"));
      tellWork();
    });

  on("reset", () => {
    for (const each of [turns, calls, names]) each.clear();
    document.querySelector("#speaking")?.replaceChildren();
  });
  on("call_started", (event) => calls.set(event.path, { block: event.block, role: event.role, since: event.at * 1000 }));
  on("text_delta", (event) => write(event.path, event.from, event.text));
  on("call_retried", (event) => write(event.path, 0, ""));
  on("call_fell_back", (event) => write(event.path, 0, ""));
  on("model_called", (event) => {
    calls.delete(event.path);
    spent.calls += 1;
    spent.tokens += (event.usage?.promptTokens ?? 0) + (event.usage?.completionTokens ?? 0);
  });
  on("turn_started", (event) => {
    names.set(event.block, event.agentName);
    turns.set(event.path, { name: event.agentName, turn: null, text: "" });
  });
  on("turn_finished", (event) => finish(event.path));
  on("role_failed", (event) => finish(event.path));
  for (const kind of JSON.parse(run.dataset.live ?? "[]")) on(kind, refresh); // after these there is more to show
  events.addEventListener("open", () => say(""));
  events.addEventListener("error", () => say("The connection is lost, and is tried again. The run goes on."));
  const over = async () => {
    events.close();
    clearInterval(clock);
    turns.clear();
    calls.clear();
    document.querySelector("#live")?.remove();
    await refresh();
    document.querySelector("#speaking")?.remove();
    if ("live" in run.dataset) setTimeout(() => location.reload(), 1000); // it has been resumed meanwhile
  };
  events.addEventListener("end", over);
  events.addEventListener("problem", over);
}

/** A turn is over: what is shown of it stays until the page has it. @param {string} path */
function finish(path) {
  for (const [place, turn] of turns) {
    if (path !== place && !path.startsWith(`${place}/`)) continue;
    turns.delete(place);
    if (turn.turn) finished.push(turn.turn);
  }
}

/**
 * The text of a call from a place on, in the turn that it belongs to.
 * @param {string} path
 * @param {number} from
 * @param {string} text
 */
function write(path, from, text) {
  for (const [place, turn] of turns) {
    if (!path.startsWith(`${place}/`)) continue;
    turn.text = [...turn.text].slice(0, from).join("") + text;
    show(turn);
    return;
  }
}

/** Show a turn as far as it is written. @param {{name: string, turn: HTMLElement | null, text: string}} turn */
function show(turn) {
  if (turn.turn === null) {
    const known = [...document.querySelectorAll("#masthead .who")].find((each) => each.textContent === turn.name);
    const side = /** @type {HTMLElement | undefined} */ (known)?.dataset.side;
    const head = element("h3", { class: "who" }, element("i", { class: "mark" }), turn.name);
    turn.turn = element("article", { class: "turn", "aria-label": turn.name, "aria-busy": "true", ...(side ? { "data-side": side } : {}) }, element("header", {}, head));
    document.querySelector("#speaking")?.append(turn.turn);
  }
  const isData = turn.text.trimStart().startsWith("{");
  const lines = isData ? [] : turn.text.split("\n").filter((line) => line.trim());
  const shown = turn.turn.querySelectorAll("p");
  shown.forEach((each, at) => at >= lines.length && each.remove());
  lines.forEach((line, at) => {
    const last = at === lines.length - 1;
    const paragraph = shown[at] ?? turn.turn?.appendChild(document.createElement("p"));
    if (last) paragraph.replaceChildren(line, element("i", { class: "caret", role: "img", "aria-label": "still speaking" }));
    else if (paragraph.textContent !== line) paragraph.replaceChildren(line);
  });
  turn.turn.querySelector(".think")?.remove();
  if (lines.length === 0) turn.turn.querySelector("h3")?.append(thinking());
}

function thinking() {
  return element("span", { class: "think", role: "img", "aria-label": "thinking" }, element("i"), element("i"), element("i"));
}

/** Who is at work, what it has taken so far, and for how long. */
function tellWork() {
  const now = new Map();
  for (const call of calls.values()) now.set(names.get(call.block) ?? (call.role ? `The ${call.role}` : call.block), call.since);
  for (const turn of turns.values()) show(turn);
  const who = [...now.keys()];
  const writing = [...turns.values()].some((each) => each.text);
  const does = who.length > 1 ? "are at work" : writing ? "is speaking" : "is thinking";
  if (who.length) say(`${who.join(", ")} ${does}`);
  put("#calls", spent.calls ? `${spent.calls} ${spent.calls === 1 ? "call" : "calls"}` : "");
  put("#tokens", spent.tokens ? `${spent.tokens.toLocaleString("en")} tokens` : "");
  const since = now.size ? Math.min(...now.values()) : began;
  put("#time", who.length ? `${Math.max(0, Math.round((Date.now() - since) / 1000))} s` : "");
}

/** @param {string} text */
function say(text) {
  put("#doing", text);
}

/** @param {string} place @param {string} text */
function put(place, text) {
  const there = document.querySelector(place);
  if (there && there.textContent !== text) there.textContent = text;
}

/** Turns that are over, until the page has them. @type {HTMLElement[]} */
const finished = [];
/** The fetching of pages, while it goes on. @type {Promise<void> | null} */
let fetching = null;
let again = false;

/** Make the page that of what is finished by now. */
function refresh() {
  again = true;
  fetching ??= (async () => {
    while (again) {
      await new Promise((go) => setTimeout(go, 60)); // what ends together is fetched together
      again = false;
      const over = finished.splice(0);
      const answer = await fetch(location.href).catch(() => null);
      if (answer?.ok) showPage(new DOMParser().parseFromString(await answer.text(), "text/html"));
      for (const each of over) each.remove();
    }
    fetching = null;
  })();
  return fetching;
}

/** @param {Document} page */
function showPage(page) {
  const then = page.querySelector("#run");
  if (then === null) return;
  const speaking = document.querySelector("#speaking");
  become(run, then);
  const place = document.querySelector("#speaking");
  if (speaking && place && place !== speaking) place.replaceWith(speaking);
  document.title = page.title;
  listen();
}

/** Listen to the buttons of the page. */
function listen() {
  for (const button of document.querySelectorAll("[data-do]")) {
    button.removeEventListener("click", act);
    button.addEventListener("click", act);
  }
  if (!looking) void look();
}

listen();
if ("live" in run.dataset) follow();
