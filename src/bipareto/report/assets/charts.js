"use strict";
// Charts that plotly draws. Of its markup only <br> is used: the others become inline styles, which the policy forbids.

const FONT = { family: 'system-ui, -apple-system, "Segoe UI", Roboto, sans-serif', size: 12, color: "#1a1d21" };
const CONFIG = { displaylogo: false, modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"] };
const GRID = { gridcolor: "#e3e6ea", zerolinecolor: "#b8bfc7", linecolor: "#8b939d", automargin: true, ticks: "outside", tickcolor: "#8b939d" };
const NARROW = 620;

function plot(id, traces, layout, label) {
  const node = byId(id);
  node.setAttribute("aria-label", label);
  const common = { font: FONT, showlegend: false, hovermode: "closest", paper_bgcolor: "#fff", plot_bgcolor: "#fff", margin: { l: 8, r: 12, t: 10, b: 8 } };
  const size = { width: node.clientWidth, height: node.clientHeight };
  return Plotly.react(node, traces, { ...common, ...size, ...layout }, CONFIG);
}

/** What hovering over a run tells. */
function told(data, run) {
  const values = data.names.map((name, s) => `${escaped(name)}: ${number(run.values[s])}`);
  return [escaped(run.title), ...values].join("<br>");
}

function trace(look, more) {
  return { mode: "lines+markers", hoverinfo: "text", line: { color: look.colour, dash: look.dash, width: 1.5 }, ...more };
}

/** One radius per objective: the values themselves where they are alike in size and differ visibly, else the place between
 * the best and the worst found. */
function radii(data) {
  const good = data.runs.filter((run) => !run.failed);
  const ranges = data.names.map((_, s) => {
    const values = good.map((run) => run.values[s]);
    return [Math.min(...values), Math.max(...values)];
  });
  const tops = ranges.map(([, high]) => high);
  const seen = ranges.filter(([low, high]) => high - low > 0.3 * high).length;
  const alike = ranges.every(([low]) => low >= 0) && Math.max(...tops) <= 10 * Math.min(...tops) && 2 * seen >= ranges.length;
  const scaled = (value, s) => (ranges[s][1] > ranges[s][0] ? (value - ranges[s][0]) / (ranges[s][1] - ranges[s][0]) : 0);
  const radius = alike ? (value) => value : (value, s) => 0.15 + 0.85 * scaled(value, s);
  return { alike, radius, best: ranges.map(([low], s) => radius(low, s)) };
}

function drawRadar(data, view) {
  const good = data.runs.filter((run) => !run.failed);
  byId("radar-figure").hidden = data.names.length < 3 || !good.length;
  if (byId("radar-figure").hidden) return;
  const { alike, radius, best } = radii(data);
  const many = data.runs.length > 30;
  const angles = data.names.map((_, s) => (360 * s) / data.names.length);
  const closed = (list) => [...list, list[0]];
  const polygon = (run) => closed(run.values.map(radius));
  const round = closed(angles);
  const traces = [{ type: "scatterpolar", mode: "lines", r: closed(best), theta: round, fill: "toself", fillcolor: "#e1e4e8", line: { color: "#8b939d", width: 1 }, hoverinfo: "skip" }];
  const kept = good.filter((run) => inside(run, view.brushes));
  const rest = good.filter((run) => !kept.includes(run));
  const strung = (runs, make_) => runs.flatMap((run) => [...make_(run), null]);
  const add = (runs, look, more) => traces.push(trace(look, {
    type: "scatterpolar", r: strung(runs, polygon), theta: strung(runs, () => round), customdata: strung(runs, (run) => round.map(() => run.index)),
    text: strung(runs, (run) => round.map(() => told(data, run))), ...more,
  }));
  if (rest.length) add(rest, { colour: "#d5dae0", dash: "solid" }, { mode: "lines", hoverinfo: "skip" });
  data.groups.forEach((look, g) => {
    const own = kept.filter((run) => run.group === g);
    if (own.length) add(own, look, many ? { mode: "lines", opacity: 0.5 } : { marker: { color: look.colour, symbol: look.symbol, size: 6 } });
  });
  if (view.chosen >= 0) add([data.runs[view.chosen]], { colour: "#111", dash: "solid" }, { line: { color: "#111", width: 4 }, marker: { color: "#111", size: 8 } });
  const narrow = byId("radar").clientWidth < 420;
  const lines = data.names.map((name) => wrapped(name, narrow ? 11 : 16));
  const labels = lines.map((rows) => rows.map(escaped).join("<br>"));
  const aside = lines.filter((_, s) => Math.abs(Math.sin((angles[s] * Math.PI) / 180)) > 0.2);
  const side = 20 + 6.5 * Math.max(...aside.flat().map((row) => row.length));
  const margin = { l: side, r: side, t: 22 + 14 * lines[0].length, b: 22 + 14 * Math.max(...lines.map((rows) => rows.length)) };
  const angular = { tickvals: angles, ticktext: labels, rotation: 90, direction: "clockwise", gridcolor: "#e3e6ea", linecolor: "#b8bfc7" };
  const radial = { angle: 90 - 180 / data.names.length, tickangle: 90 - 180 / data.names.length, gridcolor: "#e3e6ea", showline: false, rangemode: "tozero", showticklabels: alike, nticks: 5, tickfont: { size: 11, color: "#555c66" } };
  byId("radar-caption").textContent = `${alike ? "Values" : "Each axis from the best value found, inside, to the worst"}; smaller is better. Grey area: the best of each objective over all runs. Thick: chosen.`;
  plot("radar", traces, { polar: { angularaxis: angular, radialaxis: radial, bgcolor: "#fff" }, margin }, "Radar of all runs; the table below holds the same numbers");
}

/** The pairs to show: all of them in a triangle where there is room, else the one picked. */
function pairs(data) {
  const count = data.names.length;
  const all = byId("scatter-figure").clientWidth >= NARROW && count <= 6;
  byId("pair").hidden = all;
  if (!all) return { size: 1, list: [[0, 0, Number(byId("across").value), Number(byId("up").value)]] };
  const list = [];
  for (let row = 0; row < count - 1; row++) for (let column = 0; column <= row; column++) list.push([row, column, column, row + 1]);
  return { size: count - 1, list };
}

function drawScatter(data, view) {
  byId("scatter-figure").hidden = data.names.length < 2 || data.runs.every((run) => run.failed);
  if (byId("scatter-figure").hidden) return;
  const { size, list } = pairs(data);
  const good = data.runs.filter((run) => !run.failed);
  const layout = {};
  const traces = [];
  const gap = size > 1 ? 0.07 / size : 0;
  const letters = Math.min(22, Math.floor(byId("scatter").clientWidth / size / 8));
  list.forEach(([row, column, across, up], i) => {
    const name = i ? String(i + 1) : "";
    const domain = (place) => [place / size + gap, (place + 1) / size - gap];
    const title = (s, shown) => ({ text: shown ? wrapped(data.names[s], letters).map(escaped).join("<br>") : "", standoff: 6 });
    const edge = { bottom: row === size - 1, left: column === 0 };
    layout[`xaxis${name}`] = { ...GRID, domain: domain(column), anchor: `y${name}`, title: title(across, edge.bottom), showticklabels: edge.bottom, nticks: 5, matches: column === row ? undefined : `x${axisNumber(column, column)}` };
    layout[`yaxis${name}`] = { ...GRID, domain: domain(size - 1 - row), anchor: `x${name}`, title: title(up, edge.left), showticklabels: edge.left, nticks: 5, matches: column === 0 ? undefined : `y${axisNumber(row, 0)}` };
    const points = (runs, marker) => ({
      x: runs.map((run) => run.values[across]), y: runs.map((run) => run.values[up]), xaxis: `x${name}`, yaxis: `y${name}`, mode: "markers",
      marker, hoverinfo: "text", text: runs.map((run) => told(data, run)), customdata: runs.map((run) => run.index),
    });
    data.groups.forEach((look, g) => {
      const own = good.filter((run) => run.group === g);
      if (!own.length) return;
      const open = (run) => (run.nondominated ? look.symbol : `${look.symbol}-open`);
      const pale = (run) => (inside(run, view.brushes) ? 0.9 : 0.12);
      traces.push(points(own, { color: look.colour, symbol: own.map(open), opacity: own.map(pale), size: data.runs.length > 30 ? 6 : 9 }));
    });
    if (view.chosen >= 0) traces.push({ ...points([data.runs[view.chosen]], { color: "#111", symbol: "circle-open", size: 18, line: { width: 2.5 } }), hoverinfo: "skip" });
  });
  byId("scatter").style.height = `${size === 1 ? 380 : Math.min(230 * size, 900) + 40}px`;
  plot("scatter", traces, layout, "Every run in the plane of pairs of objectives; the table below holds the same numbers");
}

/** The number of the panel in a row and column of the triangle, as plotly names its axes. */
function axisNumber(row, column) {
  const before = (row * (row + 1)) / 2 + column;
  return before ? String(before + 1) : "";
}

function drawConvergence(data, run) {
  const { steps, values, weights, gap, margin } = run.history;
  const of = (rows, title) => data.objectives.map((look, s) => trace(look, {
    mode: "lines", x: steps, y: rows.map((row) => row[s]), text: steps.map((step, k) => `${escaped(data.names[s])}<br>step ${step}: ${title} ${number(rows[k][s])}`),
  }));
  const one = (row, title) => [trace({ colour: "#0072B2", dash: "solid" }, { mode: "lines", x: steps, y: row, text: steps.map((step, k) => `step ${step}: ${title} ${number(row[k])}`) })];
  const across = { ...GRID, title: { text: "upper step", standoff: 6 } };
  const axes = (text, more = {}) => ({ xaxis: across, yaxis: { ...GRID, title: { text, standoff: 6 }, ...more } });
  const powers = { type: "log", exponentformat: "e", dtick: gap.some((g) => g > 0) ? undefined : 1 };
  const none = { annotations: [{ text: "not recorded by this method", showarrow: false, xref: "paper", yref: "paper", x: 0.5, y: 0.5 }] };
  plot("losses", of(values, "value"), axes("value of the objective"), "Values of the objectives against the upper step");
  plot("weights", of(weights, "weight"), axes("weight r∘λ", { rangemode: "tozero" }), "Weights of the objectives against the upper step");
  plot("gap", one(gap.map((g) => (g > 0 ? g : null)), "gap"), axes("‖Σ λ∇φ‖²", powers), "Stationarity gap against the upper step");
  const lacking = margin.every((m) => m === null) ? none : {};
  plot("margin", one(margin, "margin"), { ...axes("holds where ≥ 0", { exponentformat: "e" }), ...lacking }, "Margin of Lemma 2 against the upper step");
}
