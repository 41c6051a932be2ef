// The list of layers: search, and thumbnails of tiles that browsers cannot decode.

import "../styles/viewer.css";
import "../styles/list.css";
import { byId } from "../dom.js";
import { t } from "../texts.js";

const cards = [...byId("layers").children];
const chips = [...byId("chips").querySelectorAll(".chip")];

/** Take what is searched from the URL, so that it can be shared and survives a visit of a layer. */
function follow() {
  const wanted = new URLSearchParams(location.hash.slice(1));
  byId("search").value = wanted.get("q") ?? "";
  for (const chip of chips) chip.setAttribute("aria-pressed", wanted.getAll("tag").includes(chip.value));
  search();
}

function write(chosen) {
  const wanted = new URLSearchParams(chosen.map((tag) => ["tag", tag]));
  const text = byId("search").value.trim();
  if (text) wanted.set("q", text);
  const fragment = String(wanted) && `#${wanted}`;
  history.replaceState(null, "", location.pathname + location.search + fragment);
}

function search() {
  const chosen = chips.filter((chip) => chip.getAttribute("aria-pressed") === "true").map(({ value }) => value);
  write(chosen);
  const words = byId("search").value.toLowerCase().split(/\s+/).filter(Boolean);
  for (const card of cards) {
    const text = `${card.dataset.layer} ${card.textContent} ${card.dataset.words}`.toLowerCase();
    const own = JSON.parse(card.dataset.words);
    card.hidden = !words.every((word) => text.includes(word)) || !chosen.every((word) => own.includes(word));
  }
  const count = cards.filter(({ hidden }) => !hidden).length;
  byId("empty").hidden = count > 0;
  byId("count").textContent = t(count === 1 ? "one-layer" : "layers", { count });
}

async function paint(canvas) {
  observer.unobserve(canvas);
  const { paintThumbnail } = await import("../thumbnail.js");
  await paintThumbnail(canvas).catch(() => canvas.remove());
}

const observer = new IntersectionObserver(
  (entries) => entries.filter(({ isIntersecting }) => isIntersecting).forEach(({ target }) => paint(target)),
  { rootMargin: "200px" },
);
for (const canvas of document.querySelectorAll("canvas[data-tile]")) observer.observe(canvas);
for (const image of document.querySelectorAll(".picture img")) {
  image.addEventListener("error", () => image.remove());
}
byId("chips").addEventListener("click", ({ target }) => {
  if (!target.matches(".chip")) return;
  target.setAttribute("aria-pressed", target.getAttribute("aria-pressed") !== "true");
  search();
});
byId("search").addEventListener("input", search);
window.addEventListener("hashchange", follow);
if (location.hash) follow();
