// The list of layers: search, and thumbnails of tiles that browsers cannot decode.

import "../styles/viewer.css";
import "../styles/list.css";
import { byId } from "../dom.js";
import { layerPage } from "../site.js";
import { t } from "../texts.js";

const cards = [...byId("layers").children];

/** Follow an old link to a layer: #layer/zoom/x/y. */
function followOldLink() {
  const [name] = location.hash.slice(1).split("/");
  const found = cards.find(({ dataset }) => encodeURIComponent(dataset.layer) === name || dataset.layer === name);
  if (name && found) location.replace(layerPage(found.dataset.layer));
}

function search() {
  const chosen = [...byId("chips").querySelectorAll("[aria-pressed=true]")].map(({ value }) => value);
  const words = byId("search").value.toLowerCase().split(/\s+/).filter(Boolean);
  let found = 0;
  for (const card of cards) {
    const text = `${card.dataset.layer} ${card.textContent} ${card.dataset.words}`.toLowerCase();
    const own = JSON.parse(card.dataset.words);
    card.hidden = !words.every((word) => text.includes(word)) || !chosen.every((word) => own.includes(word));
    if (!card.hidden) found += 1;
  }
  byId("empty").hidden = found > 0;
  byId("count").textContent = t(found === 1 ? "one-layer" : "layers", { count: found });
}

function paintWhenVisible() {
  const observer = new IntersectionObserver(
    (entries) => {
      for (const { target, isIntersecting } of entries) {
        if (!isIntersecting) continue;
        observer.unobserve(target);
        paint(target).catch(() => target.remove());
      }
    },
    { rootMargin: "200px" },
  );
  for (const canvas of document.querySelectorAll("canvas[data-tile]")) observer.observe(canvas);
}

async function paint(canvas) {
  const { paintThumbnail } = await import("../thumbnail.js");
  await paintThumbnail(canvas);
}

for (const image of document.querySelectorAll(".picture img")) {
  image.addEventListener("error", () => image.remove());
}
byId("chips").addEventListener("click", ({ target }) => {
  if (!target.matches(".chip")) return;
  target.setAttribute("aria-pressed", target.getAttribute("aria-pressed") !== "true");
  search();
});
byId("search").addEventListener("input", search);
followOldLink();
paintWhenVisible();
