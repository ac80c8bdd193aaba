// @ts-check
/** What pages and the widget of a notebook share: elements, and what the other side refuses. */

/** What the server did not do, and why. */
export class Refusal extends Error {
  /**
   * @param {string} message
   * @param {{field: string, problem: string}[]} errors
   */
  constructor(message, errors) {
    super(message);
    this.errors = errors;
  }
}

/**
 * An element with text or elements in it.
 * @param {string} name
 * @param {Record<string, string>} [attributes]
 * @param {(Node | string)[]} contents
 */
export function element(name, attributes = {}, ...contents) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...contents);
  return made;
}
