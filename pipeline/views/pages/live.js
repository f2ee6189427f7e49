const main = document.querySelector("main");
let shown = "";
async function update() {
  let content;
  try {
    const answer = await fetch(`training/content${location.search}`);
    content = answer.ok ? await answer.text() : "";
  } catch {
    content = "";
  }
  document.body.classList.toggle("lost", !content);
  if (content && content !== shown) {
    shown = content;
    main.innerHTML = content;
    addPointerValues(main);
  }
  setTimeout(update, 1000);
}
update();
