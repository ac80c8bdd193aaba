// @ts-check
/** A run in progress. The server renders whatever is finished; this script shows who is speaking, token by token. */

import { become, element, seen } from "./page.js";

const run = /** @type {HTMLElement} */ (document.querySelector("#run"));

/** A turn in progress, with the blocks of its text so far. @typedef {{path: string, name: string, side: number | null, html: string[]}} Turn */
/** @type {{turn: Turn, shown: HTMLElement}[]} */
let turns = [];
/** A sentence saying who is working. */
let doing = "";
/** When the current work began, in seconds since 1970; null while nobody is working. @type {number | null} */
let since = null;

/**
 * Follow the run until it is over while the page is visible: a hidden page holds no connection.
 * @param {string} address URL of the run's events.
 * @param {() => void} [changed] Called when the page has changed.
 */
export async function follow(address, changed) {
  const clock = setInterval(tellTime, 1000);
  addEventListener("scroll", offer, { passive: true });
  latest?.addEventListener("click", () => toEnd());
  for (;;) {
    await seen();
    const end = await hear(address);
    if (end === "over") {
      const known = document.querySelector("#verdict") !== null;
      const follows = beyond() < NEAR;
      await refresh();
      changed?.();
      if (!("live" in run.dataset)) {
        clearInterval(clock);
        return finish(known, follows);
      }
      await seconds(1); // it has been resumed in the meantime
    } else if (end === "turn") await seconds(3); // another page in this browser takes its turn
    else if (end === "lost") await explain(address);
  }
}

/** Browsers open six connections per server: this many are for pages following runs, the rest for everything else. */
const SLOTS = ["flowdebate-stream-0", "flowdebate-stream-1", "flowdebate-stream-2"];
const signature = String(Math.random());

/** Claim a slot for five seconds, and return whether this page holds it. Web Locks do not work over plain HTTP. @param {string} slot */
function sign(slot) {
  const [holder, until] = (localStorage.getItem(slot) ?? "").split(" ");
  if (holder !== signature && Number(until) > Date.now()) return false;
  localStorage.setItem(slot, `${signature} ${Date.now() + 5000}`);
  return true;
}

/**
 * Listen to the run's events, and return why listening ended.
 * @param {string} address
 * @returns {Promise<"over" | "hidden" | "lost" | "turn">}
 */
async function hear(address) {
  const slot = SLOTS.find(sign);
  if (!slot) return stream(address, null);
  await seconds(0.1); // another page may have signed at the same moment; the last signature counts
  if (!sign(slot)) return "turn";
  const end = await stream(address, slot);
  if (sign(slot)) localStorage.removeItem(slot);
  return end;
}

/** Milliseconds of silence before the connection counts as lost; the server sends pings every 15 s or at the interval it states. */
let silence = 40_000;

/**
 * @param {string} address
 * @param {string | null} slot Without a slot, leave once the page is up to date, because other pages share these connections.
 * @returns {Promise<"over" | "hidden" | "lost" | "turn">}
 */
function stream(address, slot) {
  return new Promise((done) => {
    const events = new EventSource(address);
    const begun = Date.now();
    let heard = begun;
    /** @param {"over" | "hidden" | "lost" | "turn"} end */
    const leave = (end) => {
      events.close();
      clearInterval(watch);
      document.removeEventListener("visibilitychange", hide);
      removeEventListener("online", change);
      done(end);
    };
    const hide = () => document.hidden && leave("hidden");
    const change = () => leave("lost"); // the network has changed, and the old connection may be dead
    const watch = setInterval(() => {
      if (Date.now() - heard > silence) leave("lost");
      else if (slot ? !sign(slot) : heard > begun && Date.now() - heard > 3000) leave("turn");
    }, 1000);
    /** @param {string} kind @param {(event: any) => void} react */
    const on = (kind, react) =>
      events.addEventListener(kind, (message) => {
        heard = Date.now();
        react(JSON.parse(/** @type {MessageEvent} */ (message).data));
      });
    on("ping", ({ seconds: pause }) => {
      silence = 1000 * (2.5 * pause + 2.5);
      hold(null);
    });
    on("page", (news) => {
      keepAtEnd(() => showNews(news));
      if (!slot) leave("turn");
    });
    on("text", (event) => {
      const each = turns.find(({ turn }) => turn.path === event.path);
      if (each) keepAtEnd(() => show(each.shown, event.keep, event.html));
    });
    on("end", () => leave("over"));
    on("problem", () => leave("over"));
    events.addEventListener("error", () => {
      if (events.readyState === EventSource.CLOSED) leave("lost");
      else if (!("lost" in run.dataset)) void explain(address, () => "lost" in run.dataset); // the browser reconnects by itself
    });
    document.addEventListener("visibilitychange", hide);
    addEventListener("online", change);
  });
}

/**
 * Show why no events arrive, and return once the run can be followed again.
 * @param {string} address
 * @param {() => boolean} [goesOn] Whether to keep trying.
 */
async function explain(address, goesOn = () => true) {
  hold("Connection lost. Trying again …");
  await seconds(0.5);
  while (goesOn()) {
    await seen();
    const left = new AbortController();
    const timer = setTimeout(() => left.abort(), 8000);
    const answer = await fetch(address, { signal: left.signal }).catch(() => null);
    clearTimeout(timer);
    left.abort(); // the stream will read the contents
    if (answer?.ok || !goesOn()) return;
    const pause = Number(answer?.headers.get("retry-after")) || 2;
    if (!answer) hold("The server does not answer. This page continues when it does.");
    else if (answer.status === 429) hold(`Too many people are watching this run. Trying again every ${pause} seconds.`);
    else if (answer.status === 401) hold("The server restarted with a new token. Open the address that it printed.");
    else if (answer.status === 410) hold("This link was revoked.");
    else if (answer.status === 404) hold("The server no longer has this run.");
    else hold("The server cannot show this run live. Trying again …");
    await seconds(pause);
  }
}

/** Stop the typing indicator and the clock while no events arrive; pass null once they do. @param {string | null} why */
function hold(why) {
  if (why === null && !("lost" in run.dataset)) return;
  run.toggleAttribute("data-lost", why !== null);
  const stop = /** @type {HTMLElement | null} */ (document.querySelector("#live [data-do=cancel]"));
  if (stop) stop.hidden = why !== null;
  say(why ?? doing);
}

/** @param {number} number */
function seconds(number) {
  return new Promise((done) => setTimeout(done, 1000 * number));
}

/**
 * Show that the run is over.
 * @param {boolean} known Whether the reader has already seen the verdict.
 * @param {boolean} follows Whether the reader is at the end of the debate.
 */
function finish(known, follows) {
  const bar = document.querySelector("#live");
  const had = bar?.contains(document.activeElement) && document.activeElement !== bar;
  bar?.remove();
  document.querySelector("#speaking")?.remove();
  document.querySelector("#board")?.removeAttribute("open");
  if (follows) toEnd();
  offer();
  const outcome = (document.querySelector("#verdict .winner") ?? run.querySelector(".state"))?.textContent?.replace(/\s+/g, " ").trim();
  say(run.dataset.status === "awaiting" ? "The run is waiting for a person." : `The run is over. ${outcome ?? ""}`);
  offerVerdict(known);
  if (had) /** @type {HTMLElement | null} */ (document.querySelector("#over") ?? document.querySelector("#main"))?.focus({ preventScroll: true });
}

/** Update the page to the server's current version. */
export async function refresh() {
  const answer = await fetch(location.href).catch(() => null);
  const page = answer?.ok ? new DOMParser().parseFromString(await answer.text(), "text/html") : null;
  const then = page?.querySelector("#run");
  if (!page || !then) return;
  become(run, then);
  document.title = page.title;
}

const latest = /** @type {HTMLElement | null} */ (document.querySelector("#latest"));
const said = /** @type {HTMLElement} */ (document.querySelector("#said"));

/** How far the end of the debate is below the visible area, in pixels; negative if it is visible. */
function beyond() {
  const bar = document.querySelector("#state")?.getBoundingClientRect().height ?? 0;
  return said.getBoundingClientRect().bottom - (innerHeight - bar);
}

/** A reader within this many pixels of the end counts as being there. */
const NEAR = 80;

/** Change the page, and keep the end in view for readers who were there before. @param {() => unknown} change */
async function keepAtEnd(change) {
  const follows = beyond() < NEAR;
  const done = change();
  if (done instanceof Promise) await done;
  if (follows) toEnd();
  offer();
}

/** Scroll to the end of the debate unless it is visible. */
function toEnd() {
  const further = beyond() + 16;
  if (further > 0) scrollBy({ top: further, behavior: "instant" });
  offer();
}

/** Offer links to the end of the debate and to the verdict. */
function offer() {
  if (latest) latest.hidden = beyond() < NEAR;
  const link = /** @type {HTMLElement | null} */ (document.querySelector("#to-verdict"));
  if (link) link.hidden = !document.querySelector("#verdict");
}

/** Offer a link to a verdict that is not visible; otherwise, keep the bar only for screen readers. @param {boolean} known */
function offerVerdict(known) {
  const bar = document.querySelector("#state");
  const verdict = document.querySelector("#verdict");
  const hide = () => {
    document.querySelector("#over")?.remove();
    bar?.classList.add("unseen");
  };
  if (!verdict || (known && verdict.getBoundingClientRect().bottom > 0)) return hide();
  document.querySelector("#doing")?.after(element("a", { class: "button main", id: "over", href: "#verdict" }, "See the verdict"));
  new IntersectionObserver((shown) => shown.some((each) => each.isIntersecting) && hide()).observe(verdict);
}

/** A piece of the page: it replaces the element with its id, or is added to the end of `at`. @typedef {{id: string, at: string, html: string, last?: string}} Piece */

/**
 * Show what the server has rendered of the run since the last update, or all of it.
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
  if (news.doing) say((doing = news.doing));
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
  if (made.querySelector("#speaking")) page.querySelector("#speaking")?.remove(); // the current speaker belongs to the last round
  const place = page.querySelector(`#${CSS.escape(piece.at)}`);
  const before = place?.querySelector(piece.at === "run" ? ":scope > #reading" : ":scope > #speaking, :scope > [data-over]");
  place?.insertBefore(made, piece.last ? null : (before ?? null)); // finished tasks come last
}

/** @param {Turn} turn */
function article(turn) {
  const head = element("h3", { class: "who" }, element("i", { class: "mark" }), element("bdi", {}, turn.name));
  const side = turn.side === null ? {} : { "data-side": String(turn.side) };
  const attributes = { class: "turn", "aria-label": turn.name, "aria-busy": "true", ...side };
  return element("article", attributes, element("header", {}, head), element("div", { class: "prose", lang: "" }));
}

/**
 * Show the text of a turn so far: the server's blocks, starting at index `keep`.
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

