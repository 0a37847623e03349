"use strict";
// Charts that plotly draws. Of its markup only <br> is used: the others become inline styles, which the policy forbids.

const FONT = { family: 'system-ui, -apple-system, "Segoe UI", Roboto, sans-serif', size: 12, color: "#1a1d21" };
const PALE = "#e3e6ea";
const GREY = "#8b939d";
const DARK = "#111";
const LINES = { gridcolor: PALE, zerolinecolor: "#c4cad1", linecolor: GREY, tickcolor: GREY };
const GRID = { ...LINES, ticks: "outside", automargin: true };
const CONFIG = { displaylogo: false, modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"] };
const MARGIN = { l: 8, r: 12, t: 10, b: 8 };
const NARROW = 620; // less has no room for all pairs
const MANY = 30; // more lines than this are drawn thin

function plot(id, traces, layout, label) {
  const node = byId(id);
  node.setAttribute("aria-label", label);
  const size = { width: node.clientWidth, height: node.clientHeight };
  const common = { font: FONT, showlegend: false, hovermode: "closest", margin: MARGIN, ...size };
  return Plotly.react(node, traces, { ...common, ...layout }, CONFIG);
}

/** What hovering over a run tells. */
function told(data, run) {
  const values = data.names.map((name, s) => `${escaped(name)}: ${number(run.values[s])}`);
  return [escaped(run.title), ...values].join("<br>");
}

function trace(look, more) {
  return { mode: "lines", hoverinfo: "text", line: { color: look.colour, dash: look.dash, width: 1.5 }, ...more };
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
  const sized = ranges.every(([low]) => low >= 0) && Math.max(...tops) <= 10 * Math.min(...tops);
  const alike = sized && 2 * seen >= ranges.length;
  const scaled = (value, [low, high]) => (high > low ? (value - low) / (high - low) : 0);
  const radius = alike ? (value) => value : (value, s) => 0.15 + 0.85 * scaled(value, ranges[s]);
  return { alike, radius, best: ranges.map(([low], s) => radius(low, s)) };
}

function drawRadar(data, view) {
  const hidden = data.names.length < 3 || data.runs.every((run) => run.failed);
  byId("radar-figure").hidden = hidden;
  if (hidden) return;
  const scale = radii(data);
  const axes = scale.alike ? "Values" : "Each axis from the best value found, inside, to the worst";
  const marks = "Grey area: the best of each objective over all runs. Thick: chosen.";
  byId("radar-caption").textContent = `${axes}; smaller is better. ${marks}`;
  const label = "Radar of all runs; the table below holds the same numbers";
  plot("radar", radarTraces(data, view, scale), radarLayout(data, scale.alike), label);
}

function radarAngles(data) {
  return data.names.map((_, s) => (360 * s) / data.names.length);
}

/** One trace for the envelope, for what lies outside the brushes, for each group and for the chosen run. */
function radarTraces(data, view, { radius, best }) {
  const closed = (list) => [...list, list[0]];
  const round = closed(radarAngles(data));
  const strung = (runs, points) => runs.flatMap((run) => [...points(run), null]); // null: the line is not drawn on
  const polygons = (runs, look, more) => trace(look, {
    type: "scatterpolar",
    r: strung(runs, (run) => closed(run.values.map(radius))),
    theta: strung(runs, () => round),
    text: strung(runs, (run) => round.map(() => told(data, run))),
    customdata: strung(runs, (run) => round.map(() => run.index)),
    ...more,
  });
  const area = { fill: "toself", fillcolor: "#e1e4e8", hoverinfo: "skip", line: { color: GREY, width: 1 } };
  const good = data.runs.filter((run) => !run.failed);
  const outside = good.filter((run) => !inside(run, view.brushes));
  const groups = data.groups.map((look, g) => {
    const own = good.filter((run) => run.group === g && inside(run, view.brushes));
    const marked = { mode: "lines+markers", marker: { color: look.colour, symbol: look.symbol, size: 6 } };
    return polygons(own, look, good.length > MANY ? { opacity: 0.5 } : marked);
  });
  const thick = { mode: "lines+markers", line: { color: DARK, width: 4 }, marker: { color: DARK, size: 8 } };
  return [
    { type: "scatterpolar", mode: "lines", r: closed(best), theta: round, ...area },
    polygons(outside, { colour: "#d5dae0", dash: "solid" }, { hoverinfo: "skip" }),
    ...groups,
    polygons(good.filter((run) => run.index === view.chosen), {}, thick),
  ];
}

function radarLayout(data, numbers) {
  const angles = radarAngles(data);
  const lines = data.names.map((name) => wrapped(name, byId("radar").clientWidth < 420 ? 11 : 16));
  const aside = lines.filter((_, s) => Math.abs(Math.sin((angles[s] * Math.PI) / 180)) > 0.2);
  const side = 20 + 6.5 * Math.max(...aside.flat().map((row) => row.length));
  const [top, bottom] = [lines[0].length, Math.max(...lines.map((rows) => rows.length))].map((count) => 22 + 14 * count);
  const between = 90 - 180 / data.names.length; // where no polygon has a corner
  const labels = lines.map((rows) => rows.map(escaped).join("<br>"));
  const clock = { rotation: 90, direction: "clockwise" };
  const angularaxis = { tickvals: angles, ticktext: labels, gridcolor: PALE, linecolor: GREY, ...clock };
  const ticks = { showticklabels: numbers, nticks: 5, tickangle: between, tickfont: { size: 11, color: "#555c66" } };
  const radialaxis = { angle: between, gridcolor: PALE, showline: false, rangemode: "tozero", ...ticks };
  return { polar: { angularaxis, radialaxis }, margin: { l: side, r: side, t: top, b: bottom } };
}

/** The pairs to show, [row, column] of objectives: all in a triangle where there is room, else the one picked. */
function pairs(data) {
  const count = data.names.length;
  const all = byId("scatter-figure").clientWidth >= NARROW && count <= 6;
  byId("pair").hidden = all;
  if (!all) return [[Number(byId("up").value), Number(byId("across").value)]];
  return data.names.flatMap((_, row) => Array.from({ length: row }, (_, column) => [row, column]));
}

function drawScatter(data, view) {
  const hidden = data.names.length < 2 || data.runs.every((run) => run.failed);
  byId("scatter-figure").hidden = hidden;
  if (hidden) return;
  const shown = pairs(data);
  const size = shown.length > 1 ? data.names.length - 1 : 1;
  byId("scatter").style.height = `${size === 1 ? 380 : Math.min(230 * size, 900) + 40}px`;
  const layout = Object.assign({}, ...shown.map((pair, i) => scatterAxes(data, shown, i, size)));
  const traces = shown.flatMap((pair, i) => scatterTraces(data, view, pair, i ? String(i + 1) : ""));
  const label = "Every run in the plane of pairs of objectives; the table below holds the same numbers";
  plot("scatter", traces, layout, label);
}

/** The axes of the i-th panel; they share their range with the first of their column and of their row. */
function scatterAxes(data, shown, i, size) {
  const [up, across] = shown[i];
  const number_ = (index) => (index ? String(index + 1) : ""); // as plotly counts axes
  const [row, column] = size > 1 ? [up - 1, across] : [0, 0];
  const gap = size > 1 ? 0.07 / size : 0;
  const letters = Math.min(22, Math.floor(byId("scatter").clientWidth / size / 8));
  const axis = (s, place, edge, first) => ({
    ...GRID,
    nticks: 5,
    domain: [place / size + gap, (place + 1) / size - gap],
    showticklabels: edge,
    title: { text: edge ? wrapped(data.names[s], letters).map(escaped).join("<br>") : "", standoff: 6 },
    ...(first ? { matches: first } : {}),
  });
  const inColumn = shown.findIndex((pair) => pair[1] === across);
  const inRow = shown.findIndex((pair) => pair[0] === up);
  const x = axis(across, column, row === size - 1, inColumn !== i && `x${number_(inColumn)}`);
  const y = axis(up, size - 1 - row, column === 0, inRow !== i && `y${number_(inRow)}`);
  const name = number_(i);
  return { [`xaxis${name}`]: { ...x, anchor: `y${name}` }, [`yaxis${name}`]: { ...y, anchor: `x${name}` } };
}

function scatterTraces(data, view, [up, across], name) {
  const good = data.runs.filter((run) => !run.failed);
  const points = (runs, marker, hoverinfo = "text") => ({
    mode: "markers",
    x: runs.map((run) => run.values[across]),
    y: runs.map((run) => run.values[up]),
    xaxis: `x${name}`,
    yaxis: `y${name}`,
    text: runs.map((run) => told(data, run)),
    customdata: runs.map((run) => run.index),
    marker,
    hoverinfo,
  });
  const groups = data.groups.map((look, g) => {
    const own = good.filter((run) => run.group === g);
    const symbol = own.map((run) => (run.nondominated ? look.symbol : `${look.symbol}-open`));
    const opacity = own.map((run) => (inside(run, view.brushes) ? 0.9 : 0.12));
    return points(own, { color: look.colour, symbol, opacity, size: good.length > MANY ? 6 : 9 });
  });
  const ring = { color: DARK, symbol: "circle-open", size: 18, line: { width: 2.5 } };
  return [...groups, points(good.filter((run) => run.index === view.chosen), ring, "skip")];
}

function drawConvergence(data, run) {
  const { steps, values, weights, gap, margin } = run.history;
  const curve = (look, row, words) => {
    const text = steps.map((step, k) => `${words}<br>step ${step}: ${number(row[k])}`);
    return trace(look, { x: steps, y: row, text });
  };
  const each = (rows) => data.objectives.map((look, s) => curve(look, rows.map((row) => row[s]), escaped(data.names[s])));
  const one = (row, words) => [curve({ colour: "#0072B2", dash: "solid" }, row, words)];
  const xaxis = { ...GRID, title: { text: "upper step", standoff: 6 } };
  const axes = (text, more) => ({ xaxis, yaxis: { ...GRID, title: { text, standoff: 6 }, exponentformat: "e", ...more } });
  const positive = gap.map((value) => (value > 0 ? value : null)); // a logarithm needs it
  const middle = { showarrow: false, xref: "paper", yref: "paper", x: 0.5, y: 0.5 };
  const none = { annotations: [{ text: "not recorded by this method", ...middle }] };
  const lacking = margin.every((value) => value === null) ? none : {};
  plot("losses", each(values), axes("value of the objective"), "Values of the objectives against the upper step");
  plot("weights", each(weights), axes("weight r∘λ", { rangemode: "tozero" }), "Weights against the upper step");
  plot("gap", one(positive, "gap"), axes("‖Σ λ∇φ‖²", { type: "log" }), "Stationarity gap against the upper step");
  const held = { ...axes("holds where ≥ 0"), ...lacking };
  plot("margin", one(margin, "margin"), held, "Margin of Lemma 2 against the upper step");
}
