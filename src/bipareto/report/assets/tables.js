"use strict";
// What is read rather than looked at: the chosen solution, all runs, certificates and how it was made.

function drawChosen(data, view) {
  const node = byId("chosen");
  if (view.chosen < 0) {
    node.replaceChildren(make("p", { class: "problem" }, "No run ended well: see the messages below."));
    return;
  }
  const run = data.runs[view.chosen];
  const height = heights(run.values, view.preference, data.reference);
  const top = Math.max(...height);
  const far = data.reference.some((z) => z !== 0);
  const product = far ? "r (value − z)" : "r × value";
  const heads = ["Objective", "Value", "Best found", "r", product];
  const rows = data.names.map((name, s) => ({
    cells: [name, number(run.values[s]), number(view.best[s]), view.preference[s].toFixed(3), { content: number(height[s]), class: height[s] === top ? "best" : false }],
  }));
  const title = make("p", {}, make("strong", {}, run.title));
  const how = view.pinned ? "Picked by you." : `Of all runs found, the one whose largest ${product} (bold) is smallest.`;
  const state = `${run.steps} steps, stationarity gap ${number(run.gap)}.`;
  const from = far ? ` z = ${data.reference.map(number).join(", ")}.` : "";
  node.replaceChildren(title, make("p", { class: "hint" }, `${how} ${state}${from}`), table(heads, rows, "Chosen solution", false));
}

function drawFronts(data, best) {
  byId("fronts").replaceChildren();
  if (data.fronts.length < 2) return;
  const measured = data.fronts.every((front) => front.hypervolume !== undefined);
  const heads = ["Compared", "Runs", "Failed", ...data.names.map((name) => `Lowest ${name}`), ...(measured ? ["Hypervolume"] : [])];
  const rows = data.fronts.map((front, f) => {
    const own = data.runs.filter((run) => run.front === f);
    const good = own.filter((run) => !run.failed);
    const lowest = data.names.map((_, s) => (good.length ? Math.min(...good.map((run) => run.values[s])) : null));
    const cells = lowest.map((value, s) => ({ content: number(value), class: value === best[s] ? "best" : false }));
    return { cells: [front.name, String(own.length), String(own.length - good.length), ...cells, ...(measured ? [number(front.hypervolume)] : [])] };
  });
  byId("fronts").append(table(heads, rows, "Comparison"));
}

function drawRuns(data, view, pick) {
  const heads = ["Run", ...data.names, "Steps", "Gap", "Seconds", "Ended"];
  const rows = data.runs.map((run) => {
    const values = run.values.map((value, s) => ({ content: number(value), class: !run.failed && value === view.best[s] ? "best" : false }));
    const name = run.failed ? run.title : make("button", { type: "button", class: "link", onclick: () => pick(run.index) }, run.title);
    const marks = [run.index === view.chosen && "chosen", run.failed && "failed", !run.failed && !inside(run, view.brushes) && "outside"];
    const ended = run.failed ? `FAILED: ${run.message}` : run.status === "COMPLETED" ? "completed" : "stationary";
    return { class: marks.filter(Boolean).join(" "), cells: [name, ...values, String(run.steps), number(run.gap), run.seconds.toFixed(1), { content: ended, class: "text" }] };
  });
  const focused = document.activeElement?.closest?.("#table tr")?.rowIndex;
  byId("table").replaceChildren(table(heads, rows, "All runs"));
  if (focused) byId("table").querySelectorAll("tr")[focused].querySelector("button")?.focus();
}

function drawCertificates(data) {
  const certified = data.runs.filter((run) => run.certificate);
  byId("certificates").hidden = !certified.length;
  if (!certified.length) return;
  const share = (value) => (value === null || value === undefined ? "–" : `${(100 * value).toFixed(1)} %`);
  const heads = ["Run", "Gap", "True gap from", "to", "Gradient error ≤", "Lower residual", "Dual residual", "Lemma 2", "Rests on"];
  const rows = certified.map((run) => {
    const c = run.certificate;
    const numbers = [c.gap, c.gap_low, c.gap_high, c.error, c.lower_residual, c.dual_residual].map(number);
    return { cells: [run.title, ...numbers, share(c.lemma), { content: c.certain ? "bounds" : "estimates", class: "text" }] };
  });
  byId("certificate-table").replaceChildren(table(heads, rows, "Certificates"));
}

function drawFacts(data) {
  const cards = data.fronts.map((front, f) => {
    const { command, settings = {}, versions = {} } = front.facts;
    const counts = {};
    for (const run of data.runs.filter((one) => one.front === f)) {
      for (const [name, count] of Object.entries(run.oracles)) counts[name] = (counts[name] ?? 0) + count;
    }
    const named = { "gradients of upper": counts.grad_upper, "gradients of lower": counts.grad_lower, "cross products J v": counts.jvp, "Hessian products H v": counts.hvp };
    const parts = [make("h3", {}, front.name)];
    if (command) parts.push(make("p", { class: "hint" }, "Made again by"), make("pre", {}, make("code", {}, command)));
    parts.push(...facts("Oracle calls of all its runs", named, (count) => count.toLocaleString("en")));
    parts.push(...facts("Settings", flat(settings), String), ...facts("Versions", flat(versions), String));
    return make("div", { class: "card" }, ...parts);
  });
  byId("facts").replaceChildren(...cards);
}

function facts(title, entries, show) {
  const rows = Object.entries(entries).flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, show(value))]);
  return rows.length ? [make("p", { class: "hint" }, title), make("dl", {}, ...rows)] : [];
}

/** Tables inside tables as one, with dots between the names. */
function flat(node, name = "") {
  if (node === null || typeof node !== "object") return { [name]: node ?? "none" };
  if (Array.isArray(node)) return { [name]: node.map((one) => (typeof one === "object" ? JSON.stringify(one) : one)).join(", ") };
  return Object.assign({}, ...Object.entries(node).map(([key, value]) => flat(value, name ? `${name}.${key}` : key)));
}
