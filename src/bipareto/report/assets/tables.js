"use strict";
// What is read rather than looked at: the chosen solution, all runs, certificates and how it was made.

const ORACLES = {
  grad_upper: "gradients of upper", grad_lower: "gradients of lower", jvp: "products J v", hvp: "products H v",
};

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
  const rows = data.names.map((name, s) => {
    const last = { content: number(height[s]), class: height[s] === top ? "best" : false };
    return { cells: [name, number(run.values[s]), number(view.best[s]), share(view.preference[s]), last] };
  });
  const title = make("p", {}, make("strong", {}, run.title));
  const how = view.pinned ? "Picked by you." : `Of all runs found, the one whose largest ${product} (bold) is smallest.`;
  const state = `${run.steps} steps, stationarity gap ${number(run.gap)}.`;
  const from = far ? ` z = ${data.reference.map(number).join(", ")}.` : "";
  const hint = make("p", { class: "hint" }, `${how} ${state}${from}`);
  node.replaceChildren(title, hint, table(heads, rows, "Chosen solution", false));
}

function drawFronts(data, best) {
  byId("fronts").replaceChildren();
  if (data.fronts.length < 2) return;
  const measured = data.fronts.every((front) => front.hypervolume !== undefined);
  const lowestOf = data.names.map((name) => `Lowest ${name}`);
  const heads = ["Compared", "Runs", "Failed", ...lowestOf, ...(measured ? ["Hypervolume"] : [])];
  const rows = data.fronts.map((front, f) => {
    const own = data.runs.filter((run) => run.front === f);
    const good = own.filter((run) => !run.failed);
    const lowest = data.names.map((_, s) => (good.length ? Math.min(...good.map((run) => run.values[s])) : null));
    const cells = lowest.map((value, s) => ({ content: number(value), class: value === best[s] ? "best" : false }));
    const volume = measured ? [number(front.hypervolume)] : [];
    return { cells: [front.name, String(own.length), String(own.length - good.length), ...cells, ...volume] };
  });
  byId("fronts").append(table(heads, rows, "Comparison"));
}

function drawRuns(data, view, pick) {
  const heads = ["Run", ...data.names, "Steps", "Gap", "Seconds", "Ended"];
  const rows = data.runs.map((run) => {
    const best = (value, s) => !run.failed && value === view.best[s];
    const values = run.values.map((value, s) => ({ content: number(value), class: best(value, s) ? "best" : false }));
    const button = () => make("button", { type: "button", class: "link", onclick: () => pick(run.index) }, run.title);
    const outside = !run.failed && !inside(run, view.brushes);
    const marks = [run.index === view.chosen && "chosen", run.failed && "failed", outside && "outside"];
    const ended = run.failed ? `FAILED: ${run.message}` : run.status.toLowerCase();
    const after = [String(run.steps), number(run.gap), run.seconds.toFixed(1), { content: ended, class: "text" }];
    return { class: marks.filter(Boolean).join(" "), cells: [run.failed ? run.title : button(), ...values, ...after] };
  });
  const focused = document.activeElement?.closest?.("#table tr")?.rowIndex;
  byId("table").replaceChildren(table(heads, rows, "All runs"));
  if (focused) byId("table").querySelectorAll("tr")[focused].querySelector("button")?.focus();
}

function drawCertificates(data) {
  const certified = data.runs.filter((run) => run.certificate);
  byId("certificates").hidden = !certified.length;
  if (!certified.length) return;
  const percent = (value) => (value === null || value === undefined ? "–" : `${(100 * value).toFixed(1)} %`);
  const measured = ["Gap", "True gap from", "to", "Gradient error ≤", "Lower residual", "Dual residual"];
  const heads = ["Run", ...measured, "Lemma 2", "Rests on"];
  const rows = certified.map((run) => {
    const c = run.certificate;
    const numbers = [c.gap, c.gap_low, c.gap_high, c.error, c.lower_residual, c.dual_residual].map(number);
    const source = { content: c.certain ? "bounds" : "estimates", class: "text" };
    return { cells: [run.title, ...numbers, percent(c.lemma), source] };
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
    const named = Object.fromEntries(Object.entries(counts).map(([name, count]) => [ORACLES[name], count]));
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
  const text = (one) => (typeof one === "object" ? JSON.stringify(one) : one);
  if (Array.isArray(node)) return { [name]: node.map(text).join(", ") };
  return Object.assign({}, ...Object.entries(node).map(([key, value]) => flat(value, name ? `${name}.${key}` : key)));
}
