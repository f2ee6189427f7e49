// Builds elements. All text goes through text nodes, so nothing in a corpus can become markup.

export function el(tag, properties, ...children) {
  const svg = ["svg", "path", "polyline", "polygon", "line", "title"].includes(tag);
  const node = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(properties || {})) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name.startsWith("--")) node.style.setProperty(name, value);
    else if (name === "class") node.setAttribute("class", value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) node.setAttribute(name, value);
  }
  node.append(...children.flat().filter(child => child !== null && child !== undefined));
  return node;
}

export const byId = id => document.getElementById(id);

export function percent(share) {
  if (share === 0) return "0%";
  if (share >= 0.1) return (100 * share).toFixed(0) + "%";
  if (share >= 0.001) return (100 * share).toFixed(1) + "%";
  return share < 0.00001 ? "<0.001%" : (100 * share).toFixed(3) + "%";
}

export const count = (number, noun) => number.toLocaleString("en") + " " + noun + (number === 1 ? "" : "s");

// Calls a function once events have paused for a moment.
export function debounced(milliseconds, action) {
  let timer = 0;
  return (...values) => {
    clearTimeout(timer);
    timer = setTimeout(() => action(...values), milliseconds);
  };
}
