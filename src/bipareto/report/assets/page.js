"use strict";
// The page: what is chosen, and everything drawn from it.

const page = { data: null, view: null, choices: null, decades: 2 };

function start(data) {
  const brushes = data.names.map(() => null);
  page.view = { weights: [], preference: [], pinned: false, chosen: -1, best: [], brushes, brush };
  byId("problem").hidden = true;
  document.querySelector("main").hidden = false;
  take(data);
  page.decades = decades(data);
  aim(data.names.map(() => 10 ** (-page.decades / 2)));
  page.choices = new Choices(snapshot());
  makeInputs();
  drawChoice();
  for (const id of ["radar", "scatter"]) byId(id).on?.("plotly_click", (event) => pick(event.points[0].customdata));
  byId("run").value = String(Math.max(page.view.chosen, 0));
  drawCurves();
}

/** How many powers of ten the sliders span: enough to balance objectives whose units differ in size. */
function decades(data) {
  const size = (run, s) => (run.failed ? 0 : run.values[s] - data.reference[s]);
  const sizes = data.names.map((_, s) => Math.max(...data.runs.map((run) => size(run, s))));
  const [low, high] = [Math.min(...sizes), Math.max(...sizes)];
  return low > 0 ? Math.max(2, 1 + Math.ceil(Math.log10(high / low))) : 2;
}

/** New data: at the start, and when a point has joined. */
function take(data) {
  data.runs.forEach((run, index) => (run.index = index));
  const good = data.runs.filter((run) => !run.failed);
  page.view.best = data.names.map((_, s) => (good.length ? Math.min(...good.map((run) => run.values[s])) : null));
  page.data = data;
  const count = (many, what) => (many ? [`${many} ${what}`] : []);
  const nondominated = data.runs.filter((run) => run.nondominated).length;
  const numbers = [`${data.runs.length} runs`, `${data.names.length} objectives`, ...count(nondominated, "nondominated")];
  byId("summary").textContent = [...numbers, ...count(data.runs.length - good.length, "failed")].join(" · ");
  byId("written").textContent = `${data.live ? "Served" : "Written"} by bipareto, ${data.written}`;
  const shown = byId("run").value;
  const text = (run) => `${run.title}${run.failed ? " (failed)" : ""}`;
  byId("run").replaceChildren(...data.runs.map((run) => make("option", { value: run.index }, text(run))));
  byId("run").value = shown || "0";
  byId("legend").replaceChildren(make("li", { class: "hint" }, data.grouped), ...data.groups.map(legendItem));
  byId("objectives").replaceChildren(...data.objectives.map(legendItem));
  drawFronts(data, page.view.best);
  drawCertificates(data);
  drawFacts(data);
}

function makeInputs() {
  const { names, reference } = page.data;
  const row = (kind, id, name, ...inputs) => make("div", { class: kind }, make("label", { for: id }, name), ...inputs);
  byId("sliders").replaceChildren(...names.map((name, s) => {
    const id = `weight-${s}`;
    const range = { min: -page.decades, max: 0, step: page.decades / 100 };
    const input = make("input", { type: "range", id, ...range, oninput: () => slide(s), onchange: () => keep(s) });
    return row("slider", id, name, input, make("output", { for: id, id: `share-${s}` }));
  }));
  byId("aspirations").replaceChildren(...names.map((name, s) => {
    const id = `level-${s}`;
    const placeholder = `above ${number(reference[s])}`;
    return row("level", id, name, make("input", { type: "number", id, step: "any", required: true, placeholder }));
  }));
  for (const [id, start_] of [["across", 0], ["up", Math.min(1, names.length - 1)]]) {
    byId(id).replaceChildren(...names.map((name, s) => make("option", { value: s }, name)));
    byId(id).value = String(start_);
    byId(id).addEventListener("change", () => drawScatter(page.data, page.view));
  }
  byId("wishes").addEventListener("submit", useLevels);
  byId("back").addEventListener("click", () => recall(page.choices.move(-1)));
  byId("forward").addEventListener("click", () => recall(page.choices.move(1)));
  byId("unbrush").addEventListener("click", () => page.view.brushes.forEach((_, s) => brush(s, null)));
  byId("run").addEventListener("change", drawCurves);
}

/** Aim: the weights of the sliders, and with them the nearest run. */
function aim(weights) {
  page.view.weights = weights;
  page.view.preference = shares(weights);
  page.view.pinned = false;
  page.view.chosen = nearest(page.data.runs, page.view.preference, page.data.reference);
}

/** A slider holds the power of ten of its weight. */
function slide(s) {
  aim(page.view.weights.with(s, 10 ** Number(byId(`weight-${s}`).value)));
  drawChoice();
}

function keep(input = null) {
  page.choices.add(snapshot(), input, performance.now());
  drawChoice();
}

function pick(index) {
  if (index === undefined || index === null) return;
  const { data, view } = page;
  Object.assign(view, { chosen: index, pinned: index !== nearest(data.runs, view.preference, data.reference) });
  keep();
}

function useLevels(event) {
  event.preventDefault();
  try {
    const levels = page.data.names.map((_, s) => byId(`level-${s}`).valueAsNumber);
    const preference = fromAspiration(levels, page.data.reference, page.data.names);
    aim(upToOne(preference));
    byId("levels-problem").textContent = "";
    keep();
  } catch (error) {
    byId("levels-problem").textContent = error.message;
  }
}

function upToOne(weights) {
  const most = Math.max(...weights);
  return weights.map((weight) => weight / most);
}

function snapshot() {
  const { weights, chosen, pinned } = page.view;
  return { weights, chosen, pinned };
}

function recall(choice) {
  Object.assign(page.view, choice, { preference: shares(choice.weights) });
  drawChoice();
}

function brush(s, interval) {
  page.view.brushes[s] = interval;
  drawChoice();
}

/** The front has grown; the run that joined is chosen, with the preference it was solved for. */
function joined(data, index) {
  take(data);
  if (index === null) return drawChoice();
  const wish = data.runs[index].preference;
  if (wish.some((entry, s) => Math.abs(entry - page.view.preference[s]) > 1e-9)) aim(upToOne(wish));
  byId("run").value = String(index);
  drawCurves();
  return pick(index);
}

/** All that depends on the choice and on the brushes. */
function drawChoice() {
  const { data, view, choices } = page;
  view.weights.forEach((weight, s) => {
    byId(`weight-${s}`).value = String(Math.log10(weight));
    byId(`weight-${s}`).setAttribute("aria-valuetext", share(view.preference[s]));
    byId(`share-${s}`).textContent = share(view.preference[s]);
  });
  byId("back").disabled = choices.at === 0;
  byId("forward").disabled = choices.at === choices.made.length - 1;
  byId("position").textContent = choices.made.length > 1 ? `choice ${choices.at + 1} of ${choices.made.length}` : "";
  const kept = data.runs.filter((run) => !run.failed && inside(run, view.brushes)).length;
  const brushed = view.brushes.some(Boolean);
  byId("unbrush").disabled = !brushed;
  byId("brushed").textContent = brushed ? `${kept} of ${data.runs.length} runs cross all marks` : "";
  byId("export").href = view.chosen >= 0 ? `api/x/${view.chosen}` : "#";
  drawChosen(data, view);
  drawRuns(data, view, pick);
  drawAll();
}

function drawAll() {
  drawParallel(byId("parallel"), page.data, page.view);
  drawRadar(page.data, page.view);
  drawScatter(page.data, page.view);
}

function drawCurves() {
  const run = page.data.runs[Number(byId("run").value)];
  const shown = run.history.steps.length;
  byId("thinned").textContent = shown < run.steps ? `${shown} of ${run.steps} steps drawn` : "";
  drawConvergence(page.data, run);
}

function redraw() {
  if (!page.data) return;
  drawAll();
  drawCurves();
}

/** Paper has a width of its own: the charts are drawn for it, then again for the screen. */
function onPaper(yes) {
  document.body.classList.toggle("paper", yes);
  redraw();
}

async function boot() {
  const stored = byId("data");
  if (stored) return start(JSON.parse(stored.textContent));
  const data = await fetchFront();
  start(data);
  return connect(data, { preference: () => page.view.preference, joined });
}

window.addEventListener("resize", redraw);
window.addEventListener("beforeprint", () => onPaper(true));
window.addEventListener("afterprint", () => onPaper(false));
boot().catch((error) => {
  byId("problem").textContent = `The page could not be drawn: ${error.message}`;
  byId("problem").hidden = false;
});
