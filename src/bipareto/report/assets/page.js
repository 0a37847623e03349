"use strict";
// The page: what is chosen, and everything drawn from it.

const page = { data: null, view: null, choices: null };

function start(data) {
  const middle = data.names.map(() => 0.5);
  page.view = { weights: middle, preference: shares(middle), pinned: false, chosen: -1, best: [], brushes: data.names.map(() => null), brush };
  byId("problem").hidden = true;
  document.querySelector("main").hidden = false;
  take(data);
  page.view.chosen = nearest(data.runs, page.view.preference, data.reference);
  page.choices = new Choices(snapshot());
  makeInputs();
  drawChoice();
  for (const id of ["radar", "scatter"]) byId(id).on?.("plotly_click", (event) => pick(event.points[0].customdata));
  byId("run").value = String(Math.max(page.view.chosen, 0));
  drawCurves();
}

/** New data: at the start, and when a point has joined. */
function take(data) {
  data.runs.forEach((run, index) => (run.index = index));
  const good = data.runs.filter((run) => !run.failed);
  page.view.best = data.names.map((_, s) => (good.length ? Math.min(...good.map((run) => run.values[s])) : null));
  page.data = data;
  const failed = data.runs.length - good.length;
  const nondominated = data.runs.filter((run) => run.nondominated).length;
  const parts = [`${data.runs.length} runs`, `${data.names.length} objectives`, `${nondominated} nondominated`, ...(failed ? [`${failed} failed`] : [])];
  byId("summary").textContent = parts.join(" · ");
  byId("written").textContent = `${data.live ? "Served" : "Written"} by bipareto, ${data.written}`;
  const options = data.runs.map((run) => make("option", { value: run.index }, `${run.title}${run.failed ? " (failed)" : ""}`));
  byId("run").replaceChildren(...options);
  byId("legend").replaceChildren(make("li", { class: "hint" }, data.grouped), ...data.groups.map(legendItem));
  byId("objectives").replaceChildren(...data.objectives.map(legendItem));
  drawFronts(data, page.view.best);
  drawCertificates(data);
  drawFacts(data);
}

function makeInputs() {
  const { names, reference } = page.data;
  byId("sliders").replaceChildren(...names.map((name, s) => {
    const input = make("input", { type: "range", id: `weight-${s}`, min: 0.01, max: 1, step: 0.01, oninput: slide, onchange: () => keep(s) });
    return make("div", { class: "slider" }, make("label", { for: `weight-${s}` }, name), input, make("output", { for: `weight-${s}`, id: `share-${s}` }));
  }));
  byId("aspirations").replaceChildren(...names.map((name, s) => {
    const input = make("input", { type: "number", id: `level-${s}`, step: "any", required: true, placeholder: `above ${number(reference[s])}` });
    return make("div", { class: "level" }, make("label", { for: `level-${s}` }, name), input);
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

function slide() {
  aim(page.data.names.map((_, s) => Number(byId(`weight-${s}`).value)));
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
    const most = Math.max(...preference);
    aim(preference.map((entry) => entry / most));
    byId("levels-problem").textContent = "";
    keep();
  } catch (error) {
    byId("levels-problem").textContent = error.message;
  }
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

/** A point joined the front: it is chosen, for the preference it was solved for. */
function joined(data, index) {
  take(data);
  if (index !== null) {
    pick(index);
    byId("run").value = String(index);
  }
  drawChoice();
  drawCurves();
}

/** All that depends on the choice and on the brushes. */
function drawChoice() {
  const { data, view, choices } = page;
  view.weights.forEach((weight, s) => {
    byId(`weight-${s}`).value = String(weight);
    byId(`share-${s}`).textContent = view.preference[s].toFixed(3);
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
