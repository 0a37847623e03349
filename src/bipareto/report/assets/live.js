"use strict";
// The page's side of the server: solve, cancel, progress and the export of x.

async function post(path, content) {
  const headers = { "Content-Type": "application/json" };
  const answer = await fetch(path, { method: "POST", headers, body: JSON.stringify(content) });
  if (!answer.ok) throw new Error((await answer.json()).problem);
}

async function fetchFront() {
  const answer = await fetch("api/front");
  if (!answer.ok) throw new Error((await answer.json()).problem);
  return answer.json();
}

/** `page`: preference(), joined(data, index); `data.cannot` says why nothing can be solved here, where that is so. */
function connect(data, page) {
  const tell = (text) => (byId("progress").textContent = text);
  const busy = (yes) => {
    byId("solve").disabled = yes || Boolean(data.cannot);
    byId("cancel").disabled = !yes;
    byId("bar").hidden = !yes;
  };
  byId("live").hidden = false;
  const ask = (path, content) => post(path, content).catch((error) => tell(error.message));
  byId("solve").addEventListener("click", () => ask("api/solve", { preference: page.preference() }));
  byId("cancel").addEventListener("click", () => {
    tell("Cancelling after the steps in flight …");
    ask("api/cancel", {});
  });
  busy(false);
  tell(data.cannot ?? "");
  const events = new EventSource("api/events");
  events.addEventListener("error", () => tell("The server does not answer; trying again …"));
  events.addEventListener("open", () => tell(data.cannot ?? ""));
  events.addEventListener("progress", (event) => {
    const { done, steps, seconds, gap, values } = JSON.parse(event.data);
    busy(true);
    byId("bar").value = done / steps;
    const now = () => `${seconds.toFixed(1)} s, gap ${number(gap)}, values ${values.map(number).join(", ")}`;
    tell(done ? `Step ${done} of ${steps}, ${now()}` : "Compiling …");
  });
  events.addEventListener("idle", async () => {
    if (!byId("bar").hidden) page.joined(await fetchFront(), null); // the end came while nobody listened
    busy(false);
  });
  events.addEventListener("ended", async (event) => {
    const { outcome, message, index } = JSON.parse(event.data);
    if (outcome === "solved") page.joined(await fetchFront(), index);
    busy(false);
    tell(message);
  });
}
