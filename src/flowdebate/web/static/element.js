// @ts-check
/** Shared by pages and the notebook widget: elements and refusals. */

/** What the server refused to do, and why. */
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
 * Create an element containing text or other elements.
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
