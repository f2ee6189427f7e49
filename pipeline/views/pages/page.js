"use strict";
// Shows the values of each curve at the epoch under the pointer.
function addPointerValues(root) {
  for (const plot of root.querySelectorAll(".plot")) {
    const curves = JSON.parse(plot.dataset.curves);
    const [low, high] = JSON.parse(plot.dataset.span);
    const cursor = plot.appendChild(Object.assign(document.createElement("div"), {className: "cursor", hidden: true}));
    const tip = plot.appendChild(Object.assign(document.createElement("div"), {className: "tip", hidden: true}));
    plot.addEventListener("pointerleave", () => { cursor.hidden = tip.hidden = true; });
    plot.addEventListener("pointermove", event => {
      const box = plot.getBoundingClientRect();
      const wanted = low + (high - low) * (event.clientX - box.left) / box.width;
      const nearest = points => points.reduce((a, b) => Math.abs(b[0] - wanted) < Math.abs(a[0] - wanted) ? b : a);
      const epoch = nearest(curves.flatMap(c => c.points))[0];
      const share = high > low ? (epoch - low) / (high - low) : 0;
      tip.replaceChildren(plot.dataset.axis + " " + epoch);
      for (const curve of curves) {
        const point = curve.points.find(p => p[0] === epoch);
        if (point) tip.append(document.createElement("br"), curve.name + " " + point[2]);
      }
      cursor.hidden = tip.hidden = false;
      cursor.style.left = 100 * share + "%";
      tip.style.left = share < 0.5 ? `calc(${100 * share}% + 0.6rem)` : "auto";
      tip.style.right = share < 0.5 ? "auto" : `calc(${100 - 100 * share}% + 0.6rem)`;
    });
  }
}
addPointerValues(document);
const find = document.querySelector("input");
if (find) find.addEventListener("input", () => {
  const wanted = find.value.trim().toLowerCase();
  for (const topic of document.querySelectorAll(".topic")) topic.hidden = !topic.textContent.toLowerCase().includes(wanted);
});
