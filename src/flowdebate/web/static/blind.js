// @ts-check
/** A blind vote: sent once, then shown next to the verdict. */

import { ask, element, Refusal } from "./page.js";

const form = /** @type {HTMLFormElement | null} */ (document.querySelector("#vote"));

if (form) {
  const reader = readerId();
  const run = form.dataset.run ?? "";
  const address = new URL(location.href);
  if (localStorage.getItem(`voted:${run}`) && !address.searchParams.has("reader")) show();
  else form.hidden = false;

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const data = new FormData(form);
    const order = JSON.parse(form.dataset.order ?? "[]");
    const chosen = String(data.get("winner") ?? "");
    const why = /** @type {HTMLTextAreaElement} */ (form.querySelector("#why")).value.trim();
    const button = /** @type {HTMLButtonElement} */ (form.querySelector("button"));
    form.querySelector(".problem")?.remove();
    button.disabled = true;
    try {
      await ask("POST", form.dataset.to ?? "", {
        winner: chosen === "" ? null : order[Number(chosen)],
        order,
        reader,
        ...(why ? { why } : {}),
      });
      localStorage.setItem(`voted:${run}`, "yes");
      address.hash = "answer"; // on a phone, the result is below the whole debate
      show();
    } catch (problem) {
      button.disabled = false;
      const what = problem instanceof Refusal ? problem.message : String(problem);
      form.append(element("p", { class: "problem", role: "alert" }, what));
    }
  });

  /** Reload the page, which then shows the verdict. */
  function show() {
    address.searchParams.set("reader", reader);
    location.replace(address);
  }
}

const given = new URL(location.href);
if (given.searchParams.has("reader")) {
  // anyone given this address should vote, not see this vote
  given.searchParams.delete("reader");
  history.replaceState(null, "", given);
}
const result = /** @type {HTMLElement | null} */ (document.querySelector("#answer"));
if (!form && result && given.hash === "#answer") {
  result.focus({ preventScroll: true });
  result.scrollIntoView();
}

/** A random id for this browser, which reveals nothing about the reader. */
function readerId() {
  const known = localStorage.getItem("reader");
  if (known) return known;
  const made = [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  localStorage.setItem("reader", made);
  return made;
}
