// @ts-check
/** Reading a long run: moving between turns by keys, collapsing turns, and searching. */

const said = /** @type {HTMLElement} */ (document.querySelector("#said"));
const find = /** @type {HTMLInputElement | null} */ (document.querySelector("#find"));
const foldAll = document.querySelector("#fold");
const marks = "highlights" in CSS ? new Highlight() : null;
if (marks) CSS.highlights.set("found", marks);

/** The turns that are shown. */
const turns = () => /** @type {HTMLElement[]} */ ([...said.querySelectorAll("article.turn[id]:not([data-miss])")]);

/** @param {HTMLElement} turn @param {boolean} folded */
function fold(turn, folded) {
  const button = turn.querySelector("[data-fold]");
  turn.toggleAttribute("data-folded", folded);
  button?.setAttribute("aria-expanded", String(!folded));
  if (!button) return;
  button.textContent = folded ? "Expand" : "Collapse";
  button.setAttribute("aria-label", (button.getAttribute("aria-label") ?? "").replace(/^\w+/, button.textContent));
}

said.addEventListener("click", (event) => {
  const button = /** @type {Element} */ (event.target).closest("[data-fold]");
  const turn = /** @type {HTMLElement | null} */ (button?.closest(".turn") ?? null);
  if (turn) fold(turn, !turn.hasAttribute("data-folded"));
});

foldAll?.addEventListener("click", () => {
  const folded = foldAll.textContent === "Collapse all";
  for (const turn of turns()) fold(turn, folded);
  foldAll.textContent = folded ? "Expand all" : "Collapse all";
});

/** Show only turns that contain the search text, and highlight it. */
function search() {
  const wanted = find?.value.trim().toLowerCase() ?? "";
  let hits = 0;
  marks?.clear();
  for (const turn of /** @type {NodeListOf<HTMLElement>} */ (said.querySelectorAll("article.turn[id]"))) {
    const miss = wanted !== "" && !turn.textContent?.toLowerCase().includes(wanted);
    turn.toggleAttribute("data-miss", miss);
    hits += miss ? 0 : 1;
    if (wanted && !miss) mark(turn, wanted);
  }
  for (const round of said.querySelectorAll(".round"))
    round.toggleAttribute("data-miss", wanted !== "" && !round.querySelector("article.turn[id]:not([data-miss])"));
  const place = document.querySelector("#hits");
  if (place) place.textContent = wanted ? `${hits} of ${said.querySelectorAll("article.turn[id]").length} turns` : "";
}

/** @param {HTMLElement} turn @param {string} wanted */
function mark(turn, wanted) {
  const texts = document.createTreeWalker(turn, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const text = texts.currentNode.textContent?.toLowerCase() ?? "";
    for (let at = text.indexOf(wanted); at >= 0; at = text.indexOf(wanted, at + wanted.length)) {
      const range = new Range();
      range.setStart(texts.currentNode, at);
      range.setEnd(texts.currentNode, Math.min(at + wanted.length, text.length));
      marks?.add(range);
    }
  }
}

find?.addEventListener("input", search);

const keys = /** @type {HTMLInputElement | null} */ (document.querySelector("#keys"));
if (keys) {
  keys.checked = localStorage.getItem("keys") !== "off"; // for people who dictate, whose letters are not commands
  keys.addEventListener("change", () => localStorage.setItem("keys", keys.checked ? "on" : "off"));
}

addEventListener("keydown", (event) => {
  const target = /** @type {Element} */ (event.target);
  if (event.key === "Escape" && target === find && find) {
    find.value = "";
    search();
    find.blur();
  }
  if (event.ctrlKey || event.metaKey || event.altKey || target.closest("input, select, textarea")) return;
  if (!keys?.checked || !keys.checkVisibility()) return; // no commands while their switch is not visible
  const all = turns();
  const at = all.indexOf(/** @type {HTMLElement} */ (target.closest("article.turn[id]")));
  if (event.key === "j" || event.key === "k") {
    const below = all.findIndex((turn) => turn.getBoundingClientRect().top > 60);
    const first = event.key === "j" ? below : (below < 0 ? all.length : below) - 1;
    const next = all[at < 0 ? first : at + (event.key === "j" ? 1 : -1)];
    next?.setAttribute("tabindex", "-1");
    next?.focus({ preventScroll: true });
    next?.scrollIntoView({ block: "start" });
  } else if (event.key === "o" && all[at]) fold(all[at], !all[at].hasAttribute("data-folded"));
  else if (event.key === "/" && find) {
    event.preventDefault();
    find.focus();
  }
});

/** Show which round the reader is in. */
const watch = new IntersectionObserver(
  (seen) => {
    for (const each of seen) {
      const link = document.querySelector(`#rounds a[href="#${each.target.id}"]`);
      if (each.isIntersecting) link?.setAttribute("aria-current", "true");
      else link?.removeAttribute("aria-current");
    }
  },
  { rootMargin: "-20% 0px -75%" },
);

const look = () => said.querySelectorAll(".round[id]").forEach((round) => watch.observe(round));
new MutationObserver(look).observe(said, { childList: true });
look();
