import { byId, count, el } from "./dom.js";
import { answers, ask, crumb, failure, isOfGraph, state } from "./state.js";
import { CircleMap } from "./map.js";
import { comparisonLink } from "./comparison.js";

// The overview of word vectors or of the nodes of a graph, and the neighbours of one word.

let wordMap = null;

const noun = () => isOfGraph(state.model) ? "node" : "word";

export function showVectors() {
  const model = state.model;
  wordMap = new CircleMap(model.x.map((x, index) => ({
    x, y: model.y[index], radius: model.radius[index], hue: model.hues ? model.hues[index] : state.hues[index], link: "#/word/" + model.ids[index],
    label: model.labels[index], title: model.labels[index], detail: model.groups ? model.groups[index] : "",
  })), `Map of ${count(model.x.length, noun())}.`);
  const hues = new Map();
  if (model.groups) model.groups.forEach((group, index) => hues.set(group, model.hues[index]));
  wordMap.node.classList.add("tall");
  const isWhole = model.x.length === model.words;
  const shown = isWhole ? `All ${count(model.words, noun())}.` : `The ${count(model.x.length, "most frequent " + noun())} of ${model.words.toLocaleString("en")}.`;
  byId("overview").replaceChildren(wordMap.node,
    el("p", { class: "note" }, `${shown} Neighbours on the map have similar vectors; long distances mean little. Zoom in to see more names.`),
    hues.size > 1 && hues.size <= 40 ? el("div", { class: "chips" }, [...hues].map(([group, hue]) => el("span", { class: "chip" }, el("span", { class: "dot", "--hue": hue }), group))) : el("span", {}));
}

function mark(ids) {
  const places = new Map(state.model.ids.map((id, index) => [id, index]));
  wordMap.select(ids.length && places.has(ids[0]) ? places.get(ids[0]) : -1);
  wordMap.emphasise(ids.length ? new Map(ids.filter(id => places.has(id)).map((id, rank) => [places.get(id), rank])) : null, false);
}

function bars(found) {
  const most = Math.max(...found.map(near => near.similarity), 1e-9);
  return el("div", { class: "bars" }, found.flatMap(near => [
    el("a", { class: "name", href: "#/word/" + near.id }, near.word),
    el("span", { class: "bar" }, el("i", { "--w": 100 * Math.max(0, near.similarity) / most + "%", "--hue": 262 })),
    el("span", { class: "value" }, near.similarity.toFixed(3))]));
}

export async function showNeighbours(id) {
  const found = await ask("neighbours", { word: id });
  mark([found.id, ...found.near.map(near => near.id)]);
  byId("detail").replaceChildren(crumb(), el("h1", {}, found.word),
    el("div", { class: "facts" }, el("span", {}, noun() + " number " + (found.id + 1).toLocaleString("en") + " by frequency"),
      found.count ? el("span", {}, count(found.count, "occurrence")) : null, found.group ? el("span", {}, found.group) : null),
    el("h2", {}, "Nearest " + noun() + "s", el("small", {}, "cosine similarity")), bars(found.near), analogyForm(found.word));
}

// Analogies need a server, and nodes of a graph have none.
function analogyForm(first) {
  if (answers || noun() === "node") return el("span", {});
  const field = (label, value) => el("input", { type: "text", "aria-label": label, placeholder: label, value, autocomplete: "off", spellcheck: "false" });
  const is = field("this word", first || ""), to = field("is to", ""), as = field("as this word", "");
  const result = el("div", {});
  const solve = async () => {
    try {
      const found = await ask("analogy", { a: is.value.trim(), b: to.value.trim(), c: as.value.trim() });
      mark(found.near.map(near => near.id));
      result.replaceChildren(bars(found.near));
    } catch (error) {
      result.replaceChildren(failure(error));
    }
  };
  for (const input of [is, to, as]) input.addEventListener("keydown", event => { if (event.key === "Enter") solve(); });
  return el("div", {}, el("h2", {}, "Analogy", el("small", {}, "man is to king as woman is to …")),
    el("div", { class: "analogy" }, is, "is to", to, "as", as, "is to", el("button", { type: "button", onclick: solve }, "?")), el("p", {}), result);
}

export function showVectorGuide() {
  mark([]);
  const model = state.model;
  byId("detail").replaceChildren(el("h1", {}, count(model.words, noun()) + ", " + count(model.dimensions, "dimension")),
    comparisonLink(), el("h2", {}, "The most frequent"),
    el("div", { class: "chips" }, model.labels.slice(0, 40).map((label, index) => el("a", { class: "chip", href: "#/word/" + model.ids[index] }, label))),
    analogyForm(""),
    el("h2", {}, "How to read this page"),
    el("ul", { class: "guide" },
      el("li", {}, `Open a ${noun()} on the map or by the search to see its nearest neighbours.`),
      el("li", {}, "Zoom with the wheel, the buttons or + and −. More names appear."),
      el("li", {}, "Keys: / searches, Escape returns here, arrow keys move on the map.")));
}
