// @ts-check
/** The archive: record outcomes, correct answers, and delete debates. */

import { ask, element, Refusal } from "./page.js";

for (const form of document.querySelectorAll("form")) {
  const path = `/archive/${encodeURIComponent(JSON.parse(form.closest("article")?.dataset.debate ?? ""))}`;
  form.hidden = false;
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const { agent, what, answer } = Object.fromEntries(new FormData(form));
    const area = form.querySelector("textarea");
    const changed = area && area.value !== area.defaultValue ? { answer } : {};
    void send("PATCH", { ...changed, ...(agent ? { [String(what)]: JSON.parse(String(agent)) } : {}) });
  });
  form.querySelector("[data-do=forget]")?.addEventListener("click", () => {
    if (confirm("Delete everything that the archive remembers about this debate?")) void send("DELETE");
  });

  /** @param {string} method @param {object} [body] */
  async function send(method, body) {
    form.querySelector(".problem")?.remove();
    try {
      await ask(method, path, body);
      location.reload();
    } catch (problem) {
      form.append(element("p", { class: "problem", role: "alert" }, problem instanceof Refusal ? problem.message : String(problem)));
    }
  }
}
