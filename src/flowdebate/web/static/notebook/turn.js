// @ts-check
/** The widget for a person's turn in a notebook. The kernel validates the answer. */

import { Refusal } from "../element.js";
import { enable, read, settle, tell } from "../form.js";

const SECONDS = 4;

/** @param {{model: any, el: HTMLElement}} view */
function render({ model, el }) {
  el.dataset.lmSuppressShortcuts = "true"; // JupyterLab must not treat typing as commands
  el.classList.add("flowdebate-page");
  let waiting = 0;
  const show = () => {
    clearTimeout(waiting);
    el.innerHTML = model.get("page");
    // JupyterLab treats arrow keys and letters outside text fields as commands, and checks only the focused element
    for (const each of /** @type {NodeListOf<HTMLElement>} */ (el.querySelectorAll("input, select, button, summary, [tabindex]")))
      each.dataset.lmSuppressShortcuts = "true";
    enable(el);
  };
  /** @param {any} message */
  const hear = (message) => {
    const form = el.querySelector("form");
    if (message?.kind !== "refused" || form === null) return;
    clearTimeout(waiting);
    enable(el);
    say("");
    tell(form, new Refusal(message.message, message.errors), "Not sent.");
  };
  /** @param {string} text */
  const say = (text) => {
    const place = el.querySelector("[role=status]");
    if (place) place.textContent = text;
  };
  /** @param {SubmitEvent} event */
  const send = (event) => {
    event.preventDefault();
    const form = /** @type {HTMLFormElement} */ (event.target);
    const found = read(form, true);
    settle(form);
    for (const button of form.querySelectorAll("button")) button.disabled = true;
    say("Sending …");
    waiting = window.setTimeout(() => {
      enable(el);
      say("The kernel has not received it yet. It may be busy with a running cell, or gone.");
    }, 1000 * SECONDS);
    model.send({ kind: "answer", place: JSON.parse(form.dataset.place ?? "null"), answer: "" in found ? found[""] : found });
  };
  el.addEventListener("submit", send);
  model.on("change:page", show);
  model.on("msg:custom", hear);
  show();
  return () => {
    clearTimeout(waiting);
    el.removeEventListener("submit", send);
    model.off("change:page", show);
    model.off("msg:custom", hear);
  };
}

export default { render };
