import { byId, count, el, percent } from "./dom.js";
import { ask, crumb, state, topicLink, topicTitle } from "./state.js";

// How the model differs from another one: matched topics, or neighbours of words.

const SHOWN_CHANGES = 100;

function head(found) {
  const words = (title, list) => list.number ? el("p", {}, el("b", {}, count(list.number, "word") + " " + title + ": "), list.first.join(" ")) : null;
  return [crumb(), el("h1", {}, "Changes"), el("div", { class: "facts" }, el("span", {}, "compared with " + found.with)),
    el("div", {}, words("added", found.words_added), words("removed", found.words_removed))];
}

function topicChange(change) {
  const words = change.words.map(word => change.entered.includes(word) ? el("ins", {}, word) : word).flatMap(word => [word, " "]);
  const left = change.left.flatMap(word => [el("del", {}, word), " "]);
  const size = change.size_before === null ? percent(change.size) : percent(change.size_before) + " → " + percent(change.size);
  return el("a", { href: topicLink(change.topic) },
    el("header", {}, el("b", {}, el("span", { class: "dot", "--hue": state.hues[change.topic] }), " " + topicTitle(change.topic)),
      el("span", {}, (change.was === null ? "new" : "changed by " + percent(change.drift)) + " · " + size)),
    el("p", {}, words, left));
}

function neighbourChange(change) {
  const parts = [...change.now.map(word => change.before.includes(word) ? word : el("ins", {}, word)),
    ...change.before.filter(word => !change.now.includes(word)).map(word => el("del", {}, word))];
  return el("a", { href: change.id >= 0 ? "#/word/" + change.id : "#/comparison" },
    el("header", {}, el("b", {}, change.word), el("span", {}, percent(change.kept) + " kept")), el("p", {}, parts.flatMap(word => [word, " "])));
}

export async function showComparison() {
  const found = await ask("comparison");
  const parts = head(found);
  if (found.topics) {
    parts.push(el("h2", {}, "Topics", el("small", {}, "those that changed most first; " + percent(found.mean_drift) + " on average")),
      el("div", { class: "documents changes" }, found.topics.slice(0, SHOWN_CHANGES).map(topicChange)));
    if (found.topics_removed.length) parts.push(el("p", { class: "soft" }, "Topics of the other model without a counterpart: " + found.topics_removed.join(", ")));
  } else {
    parts.push(el("h2", {}, "Neighbours", el("small", {}, found.kept_neighbours === null ? "" : percent(found.kept_neighbours) + " of them are the same; the words that kept the fewest")),
      el("div", { class: "documents changes" }, found.moved.map(neighbourChange)));
  }
  byId("detail").replaceChildren(...parts);
}

export const comparisonLink = () => state.model.compared ? el("p", {}, el("a", { class: "chip", href: "#/comparison" }, "Changes since the other model →")) : el("span", {});
