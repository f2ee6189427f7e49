import { el } from "./dom.js";

// The model, and the questions to the server. A page that was written to a file has its answers in the element "data".

const embedded = document.getElementById("data").textContent;
export const answers = embedded ? JSON.parse(embedded) : null;
export const state = { model: null, hues: [], word: null, selected: null, lambda: 0.6 };
const known = new Map();

// Models of the nodes of a graph.
export const isOfGraph = model => model.kind === "node2vec" || model.kind === "fastrp";

export async function ask(name, parameters = {}, keep = true) {
  const query = new URLSearchParams(parameters).toString();
  const question = query ? name + "?" + query : name;
  if (answers) {
    if (question in answers) return answers[question];
    throw new Error("This is not in the file. Open the model with “corpusmill explore” to see it.");
  }
  if (keep && known.has(question)) return known.get(question);
  let response;
  try {
    response = await fetch("api/" + question);
  } catch {
    throw new Error("The server has stopped. Start “corpusmill explore” again and open the address that it prints.");
  }
  const found = await response.json();
  if (!response.ok) throw new Error(found.error || "The server cannot answer this.");
  if (keep) {
    if (known.size > 500) known.clear();
    known.set(question, found);
  }
  return found;
}

export async function storeName(topic, name) {
  const response = await fetch("api/name", {
    method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ topic, name }),
  });
  const found = await response.json();
  if (!response.ok) throw new Error(found.error || "The name could not be stored.");
  state.model.names = found.names;
}

// Topics that are near each other on the map get similar colours.
export function setHues(xs, ys) {
  const middle = values => values.reduce((sum, value) => sum + value, 0) / Math.max(1, values.length);
  const x0 = middle(xs), y0 = middle(ys);
  const angles = xs.map((x, index) => Math.atan2(ys[index] - y0, x - x0));
  const order = angles.map((_, index) => index).sort((a, b) => angles[a] - angles[b]);
  state.hues = new Array(xs.length);
  order.forEach((index, rank) => { state.hues[index] = Math.round(20 + 360 * rank / Math.max(1, xs.length)) % 360; });
}

export const topicName = topic => state.model.names[topic] || "";
export const topicTitle = topic => topicName(topic) || state.model.heads[topic].slice(0, 3).join(", ") || "empty topic";
export const topicLink = topic => "#/topic/" + topic;

export function topicChip(topic, note) {
  return el("a", { class: "chip", href: topicLink(topic), title: state.model.heads[topic].join(" ") },
    el("span", { class: "dot", "--hue": state.hues[topic] }),
    el("span", { class: "text" }, topicTitle(topic)), note ? el("i", {}, note) : null);
}

export const crumb = () => el("a", { class: "crumb", href: "#/" }, "← Overview");
export const failure = error => el("p", { class: "error", role: "alert" }, error.message);
