// Makes the page move: the content is asked for again every second, and only that.
const content = document.querySelector("main");

async function turn() {
  try {
    const answer = await fetch("/live", { cache: "no-store" });
    if (!answer.ok) throw new Error(answer.status);
    content.innerHTML = await answer.text();
    document.body.classList.remove("stale");
  } catch {
    document.body.classList.add("stale");
  }
  setTimeout(turn, 1000);
}

setTimeout(turn, 1000);
