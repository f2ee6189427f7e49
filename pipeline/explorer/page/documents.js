import { byId, count, el, percent } from "./dom.js";
import { ask, crumb, state, topicChip, topicLink, topicTitle } from "./state.js";
import { markOverview } from "./topics.js";

// The view of one word, and of one document.

export async function showWord(id) {
  const word = await ask("word", { word: id });
  markOverview(null, new Map(word.map.topics.map((topic, index) => [topic, word.map.shares[index]])));
  const most = word.topics.length ? word.topics[0].share : 1;
  byId("detail").replaceChildren(crumb(), el("h1", {}, word.word),
    el("div", { class: "facts" }, el("span", {}, "word number " + (word.id + 1).toLocaleString("en") + " by frequency"), el("span", {}, percent(word.overall) + " of the model")),
    el("h2", {}, "Topics that use it", el("small", {}, "share of its occurrences")),
    el("div", { class: "bars" }, word.topics.flatMap(found => [
      el("a", { class: "name", href: topicLink(found.topic), title: state.model.heads[found.topic].join(" ") }, topicTitle(found.topic)),
      el("span", { class: "bar" }, el("i", { "--w": 100 * found.share / most + "%", "--hue": state.hues[found.topic] })),
      el("span", { class: "value", title: percent(found.probability) + " of the topic" }, percent(found.share))])));
}

export async function showDocument(number) {
  const found = await ask("document", { document: number });
  markOverview(null, new Map(found.topics.map(topic => [topic.topic, topic.share])));
  const listed = found.topics.reduce((sum, topic) => sum + topic.share, 0);
  const body = el("div", { class: "body" }, found.segments.map(([text, topic, strength]) => topic < 0 ? text :
    el("mark", { "--hue": state.hues[topic], "--strength": (0.25 + 0.75 * strength).toFixed(2), "data-topic": topic, title: topicTitle(topic) + ", " + percent(strength) }, text)));
  body.addEventListener("click", event => {
    const mark = event.target.closest("mark");
    if (mark) location.hash = topicLink(mark.dataset.topic);
  });
  const only = topic => {
    body.classList.toggle("only", topic !== null);
    for (const mark of body.querySelectorAll("mark")) mark.classList.toggle("on", Number(mark.dataset.topic) === topic);
  };
  const chips = found.topics.map(topic => {
    const chip = topicChip(topic.topic, percent(topic.share));
    for (const name of ["mouseenter", "focus"]) chip.addEventListener(name, () => only(topic.topic));
    for (const name of ["mouseleave", "blur"]) chip.addEventListener(name, () => only(null));
    return chip;
  });
  const metadata = Object.entries(found.metadata);
  byId("detail").replaceChildren(crumb(), el("h1", {}, found.key),
    el("div", { class: "facts" }, el("span", {}, "document " + number.toLocaleString("en")), el("span", {}, count(found.tokens, "token") + " in the vocabulary")),
    metadata.length ? el("dl", { class: "meta" }, metadata.flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value)])) : el("span", {}),
    el("h2", {}, "Its topics", el("small", {}, listed < 0.99 ? percent(1 - listed) + " are in smaller ones" : "")),
    el("div", { class: "stack" }, found.topics.map(topic => el("i", { "--w": 100 * topic.share + "%", "--hue": state.hues[topic.topic], title: topicTitle(topic.topic) }))),
    el("div", { class: "chips" }, chips),
    el("p", { class: "note" }, found.is_text ? "Each word has the colour of the topic that it most likely belongs to here. Point at a topic to see only its words."
      : found.is_bag ? "The corpus is a bag of words: these are the document’s words, the most frequent first." : "The source was moved or changed: these are the words that ingest kept."),
    body, el("p", { class: "note" }, found.file));
}
