import { byId, count, debounced, el, percent } from "./dom.js";
import { answers, ask, crumb, failure, state, storeName, topicChip, topicLink, topicName, topicTitle } from "./state.js";
import { CircleMap } from "./map.js";
import { wordList } from "./words.js";
import { comparisonLink } from "./comparison.js";

// The overview of all topics, and the view of one topic.

const ROWS = 200;
let map = null;
let list = null;

function mapPoints() {
  const model = state.model;
  return model.x.map((x, topic) => ({
    x, y: model.y[topic], radius: model.radius[topic], hue: state.hues[topic], link: topicLink(topic),
    label: topicName(topic) || model.heads[topic].slice(0, model.x.length > 60 ? 1 : 2).join(", "), title: topicTitle(topic),
    detail: model.heads[topic].join(", ") + " · " + percent(model.size[topic]),
  }));
}

export function showOverview() {
  const model = state.model;
  map = new CircleMap(mapPoints(), "Map of " + count(model.x.length, "topic") + ".");
  list = new TopicList();
  byId("overview").replaceChildren(map.node,
    el("p", { class: "note" }, "A circle’s area is the topic’s share. Topics that share words are near each other; long distances mean little."),
    list.tools, list.node, list.more);
}

class TopicList {
  constructor() {
    this.filter = el("input", { type: "search", placeholder: "Filter topics by word or name", "aria-label": "Filter topics by word or name" });
    this.sort = el("select", { "aria-label": "Order of topics" },
      [["size", "Largest first"], ["small", "Smallest first"], ["number", "By number"], ["name", "By name"], ["hue", "By place on the map"]]
        .map(([value, text]) => el("option", { value }, text)));
    this.tools = el("div", { class: "tools" }, this.filter, this.sort);
    this.node = el("nav", { class: "list", "aria-label": "Topics" });
    this.more = el("button", { class: "more", type: "button", onclick: () => { this.shown += ROWS; this.fill(); } }, "More topics");
    this.filter.addEventListener("input", debounced(80, () => { this.shown = ROWS; this.fill(); }));
    this.sort.addEventListener("change", () => this.fill());
    this.shown = ROWS;
    this.fill();
  }

  fill() {
    const model = state.model;
    const wanted = this.filter.value.trim().toLowerCase();
    const orders = {
      size: (a, b) => model.size[b] - model.size[a], small: (a, b) => model.size[a] - model.size[b], number: (a, b) => a - b,
      name: (a, b) => topicTitle(a).localeCompare(topicTitle(b)), hue: (a, b) => state.hues[a] - state.hues[b],
    };
    let topics = model.x.map((_, topic) => topic);
    if (wanted) topics = topics.filter(topic => (topicName(topic) + " " + model.heads[topic].join(" ")).toLowerCase().includes(wanted));
    topics.sort(orders[this.sort.value]);
    this.node.replaceChildren(...topics.slice(0, this.shown).map(topic => this.row(topic)));
    if (!topics.length) this.node.append(el("p", { class: "note" }, "No topic has this word among its first six. The search above looks at all words."));
    this.more.hidden = topics.length <= this.shown;
    this.mark();
  }

  row(topic) {
    const model = state.model;
    const words = model.heads[topic].join(" ");
    const name = topicName(topic);
    return el("a", { href: topicLink(topic), "data-topic": topic },
      el("span", { class: "dot", "--hue": state.hues[topic] }),
      el("span", { class: "text", title: words }, el("b", {}, name || topic), el("span", {}, words)),
      el("span", { class: "size" }, percent(model.size[topic])));
  }

  mark() {
    for (const row of this.node.children) row.classList.toggle("on", Number(row.dataset.topic) === state.selected);
  }
}

// Shows in the overview what is selected: a topic, or the topics of a word.
export function markOverview(topic, shares) {
  state.selected = topic;
  if (!map) return;
  map.select(topic === null ? -1 : topic);
  map.emphasise(shares);
  list.mark();
}

function refresh() {
  map.points = mapPoints();
  map.draw();
  list.fill();
}

function nameForm(topic) {
  const input = el("input", { type: "text", maxlength: "80", placeholder: "Name this topic", "aria-label": "Name of the topic", value: topicName(topic) });
  const said = el("span", { class: "soft", role: "status" });
  const form = el("div", { class: "naming" }, input, el("button", { type: "button", onclick: () => store() }, "Save name"), said);
  const store = async () => {
    try {
      await storeName(topic, input.value);
      input.value = topicName(topic);
      byId("topic-title").textContent = topicTitle(topic);
      said.textContent = topicName(topic) ? "Stored beside the model." : "Removed.";
      refresh();
    } catch (error) {
      said.textContent = error.message;
    }
  };
  input.addEventListener("keydown", event => { if (event.key === "Enter") store(); });
  return form;
}

export async function showTopic(number) {
  const topic = await ask("topic", { topic: number });
  const model = state.model;
  markOverview(number, null);
  const rank = model.size.filter(size => size > topic.size).length + 1;
  const documents = el("div", {});
  const groups = el("div", {});
  byId("detail").replaceChildren(crumb(),
    el("div", { class: "head" }, el("span", { class: "dot", "--hue": state.hues[number] }), el("h1", { id: "topic-title" }, topicTitle(number))),
    el("div", { class: "facts" }, el("span", {}, "topic " + number), el("span", {}, percent(topic.size) + " of the model"), el("span", {}, "number " + rank + " of " + model.x.length.toLocaleString("en") + " by size")),
    !answers && model.can_name ? nameForm(number) : el("span", {}),
    el("h2", {}, "Words"), wordList(topic), groups, documents,
    el("h2", {}, "Topics with similar words", el("small", {}, "0 is equal, 1 shares no word")),
    el("div", { class: "chips" }, topic.near.map(near => topicChip(near.topic, near.distance.toFixed(2)))));
  if (model.columns.length) showGroups(number, groups);
  if (model.documents) await showDocuments(number, documents);
}

async function showDocuments(number, node) {
  const found = await ask("documents", { topic: number }, false).catch(error => ({ failure: error.message, documents: [], together: [], seen: 0, wanted: 0 }));
  if (state.selected !== number || !node.isConnected) return;
  const scope = found.wanted < state.model.documents ? `of ${found.seen.toLocaleString("en")} drawn at random from ${state.model.documents.toLocaleString("en")}` : `of ${count(found.seen, "document")}`;
  const parts = [el("h2", {}, "Documents", el("small", {}, found.seen ? scope : ""))];
  if (found.failure) parts.push(failure({ message: found.failure }));
  else if (found.seen < found.wanted) parts.push(el("div", { class: "progress", title: "Looking at documents" }, el("i", { "--w": 100 * found.seen / found.wanted + "%" })));
  parts.push(documentList(found.documents));
  if (!found.documents.length && !found.failure && found.seen >= found.wanted) parts.push(el("p", { class: "soft" }, "No document has 5% of this topic."));
  if (found.together.length) {
    parts.push(el("h2", {}, "Topics in the same documents", el("small", {}, "how many times as often as by chance")),
      el("div", { class: "chips" }, found.together.slice(0, 12).map(other => topicChip(other.topic, "×" + other.ratio.toFixed(1)))));
  }
  node.replaceChildren(...parts);
  if (found.seen < found.wanted && !found.failure) setTimeout(() => showDocuments(number, node), found.seen ? 1500 : 400);
}

function documentList(documents) {
  const node = el("div", { class: "documents" });
  const fill = shown => {
    node.replaceChildren(...documents.slice(0, shown).map(found => el("a", { href: "#/document/" + found.document },
      el("header", {}, el("b", {}, found.key), el("span", {}, percent(found.share))), el("p", {}, found.start))));
    if (shown < documents.length) node.append(el("button", { class: "more", type: "button", onclick: () => fill(documents.length) }, "More documents"));
  };
  fill(6);
  return node;
}

function showGroups(number, node) {
  const columns = state.model.columns;
  const chart = el("div", {});
  const choice = el("select", { "aria-label": "Column of metadata" }, columns.map(column => el("option", { value: column }, column)));
  const fill = async () => {
    const found = await ask("groups", { topic: number, column: choice.value }, false).catch(() => ({ groups: [] }));
    chart.replaceChildren(groupChart(found.groups, state.hues[number]));
  };
  choice.addEventListener("change", fill);
  node.replaceChildren(el("h2", {}, "By ", columns.length > 1 ? choice : columns[0], el("small", {}, "mean share of the topic, with a 95% band")), chart);
  fill();
}

export function groupChart(groups, hue) {
  if (!groups.length) return el("p", { class: "soft" }, "No documents were looked at yet.");
  const isOrdered = groups.length > 2 && groups.every(group => /^[-+]?\d/.test(group.name));
  if (!isOrdered) {
    const sorted = [...groups].sort((a, b) => b.mean - a.mean).slice(0, 25);
    const most = Math.max(...sorted.map(group => group.mean), 1e-12);
    return el("div", { class: "bars" }, sorted.flatMap(group => [
      el("span", { class: "name", title: group.name }, group.name), el("span", { class: "bar" }, el("i", { "--w": 100 * group.mean / most + "%", "--hue": hue })),
      el("span", { class: "value", title: count(group.documents, "document") }, percent(group.mean) + " ± " + (196 * group.error).toFixed(1))]));
  }
  const sorted = [...groups].sort((a, b) => a.name.localeCompare(b.name, "en", { numeric: true }));
  const most = Math.max(...sorted.map(group => group.mean + 1.96 * group.error), 1e-12);
  const at = (index, value) => [(100 * index / (sorted.length - 1)).toFixed(2), (100 - 100 * Math.max(0, value) / most).toFixed(2)].join(",");
  const upper = sorted.map((group, index) => at(index, group.mean + 1.96 * group.error));
  const lower = sorted.map((group, index) => at(index, group.mean - 1.96 * group.error)).reverse();
  return el("div", {},
    el("div", { class: "axis" }, el("span", {}, percent(most))),
    el("svg", { class: "series", viewBox: "0 0 100 100", preserveAspectRatio: "none", role: "img", "aria-label": "Mean share of the topic by group" },
      el("polygon", { class: "band", points: [...upper, ...lower].join(" ") }),
      el("polyline", { class: "line", points: sorted.map((group, index) => at(index, group.mean)).join(" ") })),
    el("div", { class: "axis" }, el("span", {}, sorted[0].name), el("span", {}, sorted[Math.floor(sorted.length / 2)].name), el("span", {}, sorted[sorted.length - 1].name)));
}

export function showGuide() {
  markOverview(null, null);
  const model = state.model;
  const largest = model.size.map((_, topic) => topic).sort((a, b) => model.size[b] - model.size[a]).slice(0, 12);
  byId("detail").replaceChildren(el("h1", {}, count(model.x.length, "topic")),
    el("p", { class: "soft" }, count(model.words, "word") + (model.documents ? ", " + count(model.documents, "document") : "")),
    comparisonLink(), el("h2", {}, "The largest"), el("div", { class: "chips" }, largest.map(topic => topicChip(topic, percent(model.size[topic])))),
    el("h2", {}, "How to read this page"),
    el("ul", { class: "guide" },
      el("li", {}, "Open a topic on the map or in the list to see its words and documents."),
      el("li", {}, "“Distinctive” orders words by how much more frequent they are in this topic than elsewhere, “Frequent” by how frequent they are in it."),
      el("li", {}, "Open a word to see on the map which topics use it. Open a document to see the topic of each of its words."),
      answers ? null : el("li", {}, "Names that you give to topics are stored beside the model, and every command and export shows them."),
      el("li", {}, "Keys: / searches, Escape returns here, arrow keys move on the map.")));
}
