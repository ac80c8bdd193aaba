// @ts-check
/** Shared by all pages: the theme, requests to the server, and updates to the page. */

import { element, Refusal } from "./element.js";

export { element, Refusal };

/** The path under which the application is mounted. */
export const root = document.querySelector("meta[name=root]")?.getAttribute("content") ?? "";

/**
 * Send a request to the server, and return the response's data. Throws a `Refusal` with the server's message.
 * @param {string} method
 * @param {string} path
 * @param {unknown} [body]
 */
export async function ask(method, path, body) {
  let answer;
  try {
    answer = await fetch(`${root}/api/v1${path}`, {
      method,
      headers: body === undefined ? {} : { "content-type": "application/json" },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch {
    throw new Refusal("The server cannot be reached.", []);
  }
  const text = await answer.text();
  const data = text && answer.headers.get("content-type")?.includes("json") ? JSON.parse(text) : null;
  if (!answer.ok) throw new Refusal(data?.detail ?? `The server answered ${answer.status}.`, data?.errors ?? []);
  return data;
}

/** Wait until the page is visible: a hidden page holds no connection. */
export async function seen() {
  while (document.hidden) await new Promise((done) => document.addEventListener("visibilitychange", done, { once: true }));
}

/**
 * Copy text to the clipboard, which browsers allow over HTTPS, on this machine, or the old way. Text that is still
 * being loaded is passed on as a promise, because Safari would otherwise forget the click.
 * @param {string | Promise<string>} text
 */
export async function copy(text) {
  if (typeof text !== "string" && navigator.clipboard?.write) {
    const items = [new ClipboardItem({ "text/plain": text.then((now) => new Blob([now], { type: "text/plain" })) })];
    if (await navigator.clipboard.write(items).then(() => true, () => false)) return true;
  }
  const now = await Promise.resolve(text).catch(() => null);
  if (now === null) return false;
  if (await navigator.clipboard?.writeText(now).then(() => true, () => false)) return true;
  const field = /** @type {HTMLTextAreaElement} */ (element("textarea", { class: "unseen" }));
  field.value = now;
  document.body.append(field);
  field.select();
  const copied = document.execCommand("copy");
  field.remove();
  return copied;
}

/**
 * Turn `now` into `then`, leaving identical content alone: selections, focus and open folds stay.
 * An element with `data-keep` belongs to a script.
 * @param {Element} now
 * @param {Element} then
 */
export function become(now, then) {
  for (const { name } of [...now.attributes]) {
    if (!then.hasAttribute(name) && name !== "open") now.removeAttribute(name);
  }
  for (const { name, value } of then.attributes) {
    if (now.getAttribute(name) !== value && name !== "open") now.setAttribute(name, value);
  }
  const old = [...now.childNodes];
  const kept = new Set();
  let before = now.firstChild;
  for (const child of [...then.childNodes]) {
    const same = old.find((each) => !kept.has(each) && alike(each, child));
    if (same === undefined) {
      now.insertBefore(child, before);
      continue;
    }
    kept.add(same);
    while (before !== null && before !== same && kept.has(before)) before = before.nextSibling;
    if (same === before) before = before.nextSibling;
    else now.insertBefore(same, before);
    if (same instanceof Element && child instanceof Element) {
      if (!same.hasAttribute("data-keep") && !same.isEqualNode(child)) become(same, child);
    } else if (same.nodeValue !== child.nodeValue) same.nodeValue = child.nodeValue;
  }
  for (const each of old) if (!kept.has(each)) each.remove();
}

/**
 * @param {ChildNode} one
 * @param {ChildNode} other
 */
function alike(one, other) {
  if (one instanceof Element && other instanceof Element) return one.tagName === other.tagName && one.id === other.id;
  return one.nodeType === other.nodeType;
}

addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
  const form = /** @type {Element} */ (event.target).closest("form");
  if (form && !form.querySelector("button.main:disabled")) form.requestSubmit();
});

/** Make only scrollable elements reachable with the Tab key. */
function markScrolling() {
  for (const each of /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll("main [tabindex='0'], main [data-still]"))) {
    const scrolls = each.scrollWidth > each.clientWidth || each.scrollHeight > each.clientHeight;
    each.toggleAttribute("data-still", !scrolls);
    if (scrolls) each.tabIndex = 0;
    else each.removeAttribute("tabindex");
  }
}

let marking = 0;
/** Check the changed page a moment later. */
function markSoon() {
  clearTimeout(marking);
  marking = window.setTimeout(markScrolling, 100);
}

markScrolling();
addEventListener("resize", markSoon);
document.addEventListener("toggle", markSoon, { capture: true });
new MutationObserver(markSoon).observe(document.querySelector("main") ?? document.body, { childList: true, subtree: true });

const logout = /** @type {HTMLButtonElement | null} */ (document.querySelector("#logout"));
if (logout) {
  logout.hidden = false;
  logout.addEventListener("click", async () => {
    await ask("POST", "/logout");
    location.assign(`${root}/`); // where the server explains how to log in again
  });
}

const theme = /** @type {HTMLButtonElement | null} */ (document.querySelector("#theme"));
const chosen = localStorage.getItem("theme");
if (chosen) document.documentElement.dataset.theme = chosen;
if (theme) {
  const isDark = () =>
    (document.documentElement.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  const tell = () => theme.setAttribute("aria-label", isDark() ? "Theme: dark; switch to light" : "Theme: light; switch to dark");
  theme.hidden = false;
  tell();
  theme.addEventListener("click", () => {
    document.documentElement.dataset.theme = isDark() ? "light" : "dark";
    localStorage.setItem("theme", document.documentElement.dataset.theme);
    tell();
  });
}
