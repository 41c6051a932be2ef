// Elements of the page. External texts become text nodes and properties, never markup.

export const byId = (id) => document.getElementById(id);

export function element(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name in made) made[name] = value;
    else made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}

/** Fill a select with [value, text] pairs. */
export function fillSelect(select, options, value) {
  select.replaceChildren(...options.map(([key, text]) => new Option(text, key, false, key === value)));
}

/** Show a notice over the map; an empty text hides it. */
export function say(text) {
  const notice = byId("notice");
  notice.textContent = text;
  notice.hidden = !text;
}

/** Return a link, or plain text if the URL is not http(s) and could be a script. */
export function link(text, url) {
  if (!/^https?:/i.test(url)) return element("span", { textContent: text });
  return element("a", { textContent: text, href: url, rel: "noopener" });
}

export async function fetchJson(url, options) {
  const response = await fetch(url, options);
  if (!response.ok) throw new Error(`${response.status} ${response.statusText}`);
  return response.json();
}

/** Make the skip link move the focus without changing the URL fragment. */
export function bindSkipLink() {
  byId("skip").addEventListener("click", (event) => {
    event.preventDefault();
    byId("map").focus();
  });
}
