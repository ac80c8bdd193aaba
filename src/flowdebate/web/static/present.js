// @ts-check
/** A run as slides, shown one at a time and selected by keys, buttons, or the number in the address. */

const slides = /** @type {HTMLElement[]} */ ([...document.querySelectorAll(".slide")]);
const [previous, next] = ["#previous", "#next"].map((name) => /** @type {HTMLButtonElement} */ (document.querySelector(name)));
const told = document.querySelector("#at");
const subject = /** @type {HTMLElement | null} */ (document.querySelector("#subject"));
let at = -1;

/** Show a slide; numbers out of range show the first or last one. @param {number} number */
function show(number) {
  const first = at < 0;
  const wanted = Math.min(Math.max(number, 0), slides.length - 1);
  if (wanted === at) return;
  at = wanted;
  slides.forEach((slide, index) => (slide.hidden = index !== at));
  history.replaceState(null, "", `#${at + 1}`);
  if (subject) subject.hidden = at === 0; // the first slide shows it in large type
  if (told) told.textContent = `${at + 1} of ${slides.length}`;
  previous.disabled = at === 0;
  next.disabled = at === slides.length - 1;
  scrollTo(0, 0);
  if (!first) slides[at].focus({ preventScroll: true }); // makes screen readers read it
}

const asked = () => (Number.parseInt(location.hash.slice(1), 10) || 1) - 1;

previous.addEventListener("click", () => show(at - 1));
next.addEventListener("click", () => show(at + 1));
addEventListener("hashchange", () => show(asked()));

addEventListener("keydown", (event) => {
  const target = /** @type {Element} */ (event.target);
  if (event.ctrlKey || event.metaKey || event.altKey || target.closest("input, textarea, pre, summary")) return;
  // long text is scrolled to its end first, also with the keys of a presenter remote
  const page = document.documentElement;
  const above = scrollY > 0;
  const below = scrollY + innerHeight < page.scrollHeight - 1;
  if (event.key === "ArrowRight" || (event.key === "PageDown" && !below)) show(at + 1);
  else if (event.key === "ArrowLeft" || (event.key === "PageUp" && !above)) show(at - 1);
  else if (event.key === " " && !below && !event.shiftKey && !target.closest("button, a")) show(at + 1);
  else if (event.key === "Home") show(0);
  else if (event.key === "End") show(slides.length - 1);
  else if (event.key === "Escape") /** @type {HTMLElement | null} */ (document.querySelector("#leave"))?.click();
  else return;
  event.preventDefault();
});

previous.hidden = next.hidden = false;
show(asked());
