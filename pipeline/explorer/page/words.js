import { el, percent } from "./dom.js";
import { state } from "./state.js";

// The words of a topic, ordered by relevance (Sievert and Shirley, 2014, equation 1).

const SHOWN = 20;

export function relevance(probability, overall, lambda) {
  return lambda * Math.log(probability) + (1 - lambda) * Math.log(probability / Math.max(overall, 1e-12));
}

export function wordList(topic) {
  const rows = topic.words.map((word, index) => ({
    word, id: topic.ids[index], probability: topic.probability[index], overall: topic.overall[index],
    lift: topic.probability[index] / Math.max(topic.overall[index], 1e-12),
  }));
  const grid = el("div", { class: "words" });
  const more = el("button", { class: "more", type: "button", onclick: () => { shown += 70; fill(); } }, "More words");
  let shown = SHOWN;

  const fill = () => {
    const lambda = state.lambda;
    rows.sort((a, b) => relevance(b.probability, b.overall, lambda) - relevance(a.probability, a.overall, lambda));
    const most = rows.slice(0, shown).reduce((largest, row) => Math.max(largest, row.probability), 1e-12);
    grid.replaceChildren(
      el("span", { class: "head-cell" }, "word, by its share of the topic"),
      el("span", { class: "head-cell", title: "How many times as frequent as in the whole model" }, "lift"),
      el("span", { class: "head-cell", title: "Share of all its occurrences that this topic has" }, "of its uses"));
    for (const row of rows.slice(0, shown)) {
      const ofUses = Math.min(1, row.lift * topic.size);
      grid.append(
        el("a", { href: "#/word/" + row.id, "--w": (100 * row.probability / most).toFixed(1) + "%", title: percent(row.probability) + " of the topic" }, row.word),
        el("i", {}, "×" + (row.lift >= 10 ? row.lift.toFixed(0) : row.lift.toFixed(1))), el("i", {}, percent(ofUses)));
    }
    more.hidden = shown >= rows.length;
  };

  const slider = el("input", { type: "range", min: "0", max: "1", step: "0.05", value: state.lambda, "aria-label": "Relevance: from distinctive words to frequent words" });
  const shownLambda = el("output", {}, "λ = " + state.lambda);
  const buttons = [["Distinctive", 0], ["Balanced", 0.6], ["Frequent", 1]].map(([name, lambda]) =>
    el("button", { type: "button", onclick: () => set(lambda) }, name));
  const set = lambda => {
    state.lambda = lambda;
    slider.value = lambda;
    shownLambda.textContent = "λ = " + lambda;
    buttons.forEach((button, index) => button.setAttribute("aria-pressed", String([0, 0.6, 1][index] === lambda)));
    fill();
  };
  slider.addEventListener("input", () => set(Number(slider.value)));
  set(state.lambda);
  return el("div", {}, el("div", { class: "order" }, buttons, slider, shownLambda), grid, more);
}
