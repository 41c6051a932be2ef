// Requests of the API page: their URLs follow the fields, and their answers are shown. Answers are
// texts and images, never markup.

const { api, base } = document.body.dataset;
const texts = document.getElementById("texts").dataset;
const SHOWN = 1500;
const LONGEST = 100_000;
const urls = new Map();

/** Return the URL of the request of a form below a root. */
function address(form, root) {
  let { path } = form.dataset;
  const query = [];
  for (const { name, value, dataset } of form.querySelectorAll("[data-in]")) {
    // Commas and colons have no other meaning here, and are easier to read.
    const coded = encodeURIComponent(value.trim()).replace(/%2C/g, ",").replace(/%3A/g, ":").replace(/'/g, "%27");
    if (dataset.in === "path") path = path.replace(`{${name}}`, () => coded);
    else if (coded) query.push(`${name}=${coded}`);
  }
  return `${root}${path.replace(/\/$/, "")}${query.length ? "?" : ""}${query.join("&")}`;
}

function showAddress(form) {
  const link = form.querySelector(".address a");
  link.href = address(form, base) || "/";
  link.textContent = address(form, api);
}

async function send(form) {
  const shown = document.getElementById("answer").content.cloneNode(true);
  const part = (selector) => shown.querySelector(selector);
  const answer = form.querySelector(".answer");
  answer.setAttribute("aria-busy", true);
  try {
    const response = await fetch(address(form, base) || "/", { headers: { Accept: "*/*" } });
    const type = response.headers.get("Content-Type") ?? "";
    const blob = await response.blob();
    const size = `${blob.size.toLocaleString(document.documentElement.lang)} B`;
    part(".status").textContent = [`${response.status} ${response.statusText}`, type, size].filter(Boolean).join(" · ");
    part(".status").classList.toggle("failed", !response.ok);
    part(".headers").textContent = [...response.headers].map(([name, value]) => `${name}: ${value}`).join("\n");
    await showBody(form, part, blob, type);
  } catch {
    shown.replaceChildren(texts.failed);
  }
  answer.replaceChildren(shown);
  answer.setAttribute("aria-busy", false);
}

async function showBody(form, part, blob, type) {
  const url = URL.createObjectURL(blob);
  // The answer before is replaced.
  URL.revokeObjectURL(urls.get(form));
  urls.set(form, url);
  const isText = /^text\/|json|xml|yaml/.test(type);
  if (/^image\/(png|jpeg|webp)/.test(type)) part("img").src = url;
  else part("img").remove();
  if (isText) part(".text").textContent = readable(await blob.text(), type).slice(0, LONGEST);
  else part(".text").remove();
  if (blob.size) Object.assign(part(".save a"), { href: url, download: "" });
  else part(".save").remove();
}

function readable(text, type) {
  try {
    return type.includes("json") ? JSON.stringify(JSON.parse(text), null, 2) : text;
  } catch {
    return text;
  }
}

async function copy(button, text) {
  const before = button.textContent;
  await navigator.clipboard.writeText(text);
  button.textContent = texts.copied;
  setTimeout(() => {
    button.textContent = before;
  }, SHOWN);
}

for (const form of document.querySelectorAll("form.request")) {
  showAddress(form);
  form.addEventListener("input", () => showAddress(form));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    send(form);
  });
  for (const button of form.querySelectorAll("[data-copy]")) {
    // Only pages with an encrypted connection can copy.
    button.hidden = !navigator.clipboard;
    button.addEventListener("click", () => {
      const url = address(form, api);
      copy(button, button.dataset.copy === "url" ? url : `curl -sSOJ '${url}'`);
    });
  }
}
document.getElementById("chosen")?.addEventListener("change", ({ target }) => target.form.requestSubmit());
// A link to an operation opens it.
const named = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
if (named) named.open = true;
