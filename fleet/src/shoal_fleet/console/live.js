"use strict";
// Without the name and password that may stand in the page's own address: fetch refuses those.
const address = location.origin + location.pathname;
setInterval(async () => {
  if (document.hidden) return;
  try {
    const answer = await fetch(address, { cache: "no-store", signal: AbortSignal.timeout(10000) });
    if (!answer.ok) throw new Error(answer.statusText);
    if (answer.redirected) location.reload(); // the session has ended
    const next = new DOMParser().parseFromString(await answer.text(), "text/html");
    document.querySelector("main").replaceWith(next.querySelector("main"));
    document.body.classList.remove("stale");
  } catch {
    document.body.classList.add("stale");
  }
}, 2000);
