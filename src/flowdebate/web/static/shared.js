// @ts-check
/** A run opened through its public link, and followed while it is in progress. */

import { follow, refresh } from "./live.js";
import { root, seen } from "./page.js";

const run = /** @type {HTMLElement} */ (document.querySelector("#run"));
const code = location.pathname.split("/").at(-1);

/** Follow the run even if it continues only later: it may be waiting for a person, or for the server executing it. */
async function watch() {
  for (;;) {
    if ("live" in run.dataset) await follow(`${root}/api/v1/links/${code}/events`);
    if (!["awaiting", "left_behind"].includes(run.dataset.status ?? "")) return;
    await new Promise((done) => setTimeout(done, 10_000));
    await seen();
    await refresh();
  }
}

void watch();
