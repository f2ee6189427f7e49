import { byId, count, debounced, el } from "./dom.js";
import { answers, ask, failure, isOfGraph, setHues, state, topicLink, topicTitle } from "./state.js";
import { showGuide, showOverview, showTopic } from "./topics.js";
import { showDocument, showWord } from "./documents.js";
import { showComparison } from "./comparison.js";
import { showNeighbours, showVectors, showVectorGuide } from "./vectors.js";

// Starts the page, follows the part of the address after #, and searches.

async function route() {
  const [, view, number] = location.hash.split("/");
  const isVectors = state.model.type === "vectors";
  const views = isVectors ? { word: showNeighbours, comparison: showComparison } : { comparison: showComparison, topic: showTopic, word: showWord, document: showDocument };
  const show = views[view];
  document.body.dataset.view = show ? view : "home";
  try {
    if (show) await show(Number(number));
    else if (isVectors) showVectorGuide();
    else showGuide();
  } catch (error) {
    byId("detail").replaceChildren(failure(error));
  }
  byId("detail").scrollTop = 0;
  if (show && innerWidth <= 820) scrollTo(0, 0);
}

// --- search ---

async function find(text) {
  if (!answers) return ask("search", { text }, false);
  const wanted = text.toLowerCase();
  const words = answers.vocabulary.filter(([, word]) => word.toLowerCase().includes(wanted));
  words.sort((a, b) => (b[1].toLowerCase() === wanted) - (a[1].toLowerCase() === wanted));
  const names = Object.entries(state.model.names || {}).filter(([, name]) => name.toLowerCase().includes(wanted));
  return { words: words.slice(0, 8).map(([id, word]) => ({ id, word })), topics: names.map(([topic]) => Number(topic)), documents: [] };
}

function setUpSearch() {
  const query = byId("query"), results = byId("results");
  const close = () => { results.hidden = true; query.setAttribute("aria-expanded", "false"); };
  const show = debounced(60, async () => {
    const text = query.value.trim();
    if (!text) return close();
    const found = await find(text).catch(() => null);
    if (!found || query.value.trim() !== text) return null;
    const parts = [];
    const section = (title, items) => { if (items.length) parts.push(el("div", { class: "kind" }, title), ...items); };
    const item = (link, ...content) => el("a", { href: link, role: "option", tabindex: "-1", onclick: close }, content);
    section("Topics", found.topics.map(topic => item(topicLink(topic), topicTitle(topic))));
    section("Words", found.words.map(word => item("#/word/" + word.id, word.word)));
    section("Documents", found.documents.map(document => item("#/document/" + document.document, document.key)));
    if (!parts.length) parts.push(el("div", { class: "kind" }, "Nothing found."));
    results.replaceChildren(...parts);
    results.hidden = false;
    query.setAttribute("aria-expanded", "true");
    return null;
  });
  query.addEventListener("input", show);
  query.addEventListener("focus", show);
  query.addEventListener("keydown", event => {
    const items = [...results.querySelectorAll("a")];
    let at = items.findIndex(item => item.classList.contains("on"));
    if (event.key === "Escape") { close(); query.blur(); event.stopPropagation(); return; }
    if (event.key === "Enter" && items.length && !results.hidden) { items[Math.max(0, at)].click(); query.blur(); return; }
    if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
    event.preventDefault();
    items.forEach(item => item.classList.remove("on"));
    at = (at + (event.key === "ArrowDown" ? 1 : -1) + items.length) % Math.max(1, items.length);
    if (items[at]) { items[at].classList.add("on"); items[at].scrollIntoView({ block: "nearest" }); }
  });
  document.addEventListener("pointerdown", event => { if (!byId("find").contains(event.target)) close(); });
  document.addEventListener("keydown", event => {
    const isTyping = ["INPUT", "SELECT", "TEXTAREA"].includes(document.activeElement.tagName);
    if (event.key === "/" && !isTyping) { query.focus(); query.select(); event.preventDefault(); }
    if (event.key === "Escape" && !isTyping) location.hash = "#/";
  });
}

async function start() {
  try {
    state.model = await ask("model");
  } catch (error) {
    byId("overview").replaceChildren(failure(error));
    return;
  }
  const model = state.model;
  const names = { lda: "LDA", nmf: "NMF", word2vec: "Word2Vec", node2vec: "Node2Vec", "random-indexing": "Random indexing", fastrp: "FastRP" };
  const kind = names[model.kind] || model.kind;
  document.title = model.title + ": " + kind;
  byId("title").textContent = model.title;
  byId("lead").textContent = [kind, model.type === "topics" ? count(model.x.length, "topic") : count(model.words, isOfGraph(model) ? "node" : "word"),
    model.documents ? count(model.documents, "document") : ""].filter(Boolean).join(" · ");
  setHues(model.x, model.y);
  const found = model.type === "topics" ? (answers ? "word or named topic" : "word, topic or document") : isOfGraph(model) ? "node" : "word";
  byId("query").placeholder = "Find a " + found;
  byId("query").setAttribute("aria-label", "Find a " + found);
  if (model.type === "vectors") showVectors();
  else showOverview();
  setUpSearch();
  addEventListener("hashchange", route);
  await route();
  document.body.dataset.ready = "yes";
}

start();
