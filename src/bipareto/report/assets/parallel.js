"use strict";
// Parallel coordinates, upright on wide screens and lying on narrow ones. A brush is an interval of an objective's values.

const PAD = 6;

/** Whether a run lies inside all brushes. */
function inside(run, brushes) {
  return brushes.every((brush, s) => !brush || (run.values[s] >= brush[0] && run.values[s] <= brush[1]));
}

/** `view`: brushes, chosen and the function `brush(s, interval or null)`. */
function drawParallel(node, data, view) {
  const frame = parallelFrame(node.clientWidth, data);
  const good = data.runs.filter((run) => !run.failed);
  const path = (run) => frame.axes.map((axis, s) => `${s ? "L" : "M"}${axis.at(run.values[s]).join(" ")}`).join("");
  const order = (run) => (run === data.runs[view.chosen] ? 2 : inside(run, view.brushes) ? 1 : 0);
  const lines = good.toSorted((a, b) => order(a) - order(b)).map((run) => parallelLine(run, path(run), order(run), data));
  const viewBox = `0 0 ${frame.width} ${frame.height}`;
  const svg = makeSvg("svg", { viewBox, role: "group", "aria-label": "Parallel coordinates" });
  svg.append(...lines, ...frame.axes.map((axis, s) => parallelAxis(axis, s, data, view)));
  const focused = node.contains(document.activeElement) ? document.activeElement.dataset.objective : undefined;
  node.replaceChildren(svg);
  if (focused !== undefined) svg.querySelector(`[data-objective="${focused}"]`).focus();
}

/** Where the axes lie and how values become places on them. */
function parallelFrame(width, data) {
  const count = data.names.length;
  const upright = width / count >= 90;
  const height = upright ? 380 : 64 * count + 10;
  const axes = data.names.map((name, s) => {
    const values = data.runs.filter((run) => !run.failed).map((run) => run.values[s]);
    const [low, high] = values.length ? [Math.min(...values), Math.max(...values)] : [0, 1];
    const share = (value) => (high > low ? (value - low) / (high - low) : 0.5);
    const [from, to] = upright ? [height - 26, 76] : [8, width - 8];
    const across = upright ? (width * (s + 0.5)) / count : 64 * s + 32;
    const along = (value) => from + share(value) * (to - from);
    const at = (value) => (upright ? [across, along(value)] : [along(value), across]);
    const value = (x, y) => low + (((upright ? y : x) - from) / (to - from)) * (high - low);
    return { upright, across, along, at, value, low, high, width: width / count };
  });
  return { width, height, axes };
}

function parallelLine(run, path, order, data) {
  const look = data.groups[run.group];
  const many = data.runs.length > 30;
  const pale = { d: path, stroke: "#d5dae0", "stroke-width": 1 };
  const plain = { d: path, stroke: look.colour, "stroke-width": many ? 1 : 2, "stroke-dasharray": DASHES[look.dash] };
  if (order < 2) return makeSvg("path", order ? { ...plain, "stroke-opacity": many ? 0.6 : 0.9 } : pale);
  const halo = makeSvg("path", { d: path, stroke: "#111", "stroke-width": 7, "stroke-linejoin": "round" });
  return makeSvg("g", { class: "chosen" }, halo, makeSvg("path", { ...plain, "stroke-width": 4, "stroke-dasharray": "" }));
}

function parallelAxis(axis, s, data, view) {
  const { upright, across, along, low, high } = axis;
  const [a, b] = [along(low), along(high)];
  const line = upright ? { x1: across, x2: across, y1: a, y2: b } : { x1: a, x2: b, y1: across, y2: across };
  const brush = view.brushes[s];
  const attributes = {
    class: "axis", tabindex: 0, role: "slider", "data-objective": s, "aria-label": `Upper bound of ${data.names[s]}`,
    "aria-orientation": upright ? "vertical" : "horizontal", "aria-valuemin": low, "aria-valuemax": high,
    "aria-valuenow": brush ? brush[1] : high, "aria-valuetext": brush ? `at most ${number(brush[1])}` : "no bound",
    onkeydown: (event) => moveBound(event, axis, s, view),
  };
  const parts = [makeSvg("line", line), ...parallelTexts(axis, data.names[s])];
  if (brush) parts.push(makeSvg("rect", { class: "brush", ...band(axis, along(brush[0]), along(brush[1]), 8) }));
  const onpointerdown = (event) => dragBrush(event, axis, s, view);
  parts.push(makeSvg("rect", { class: "grip", ...band(axis, a, b, 16), onpointerdown }));
  return makeSvg("g", attributes, ...parts);
}

function parallelTexts(axis, name) {
  const { upright, across, along, low, high } = axis;
  if (!upright) {
    const start = makeSvg("text", { x: along(low), y: across - 12 }, wrapped(name, 44, 1)[0]);
    const ends = [low, high].map((value, end) => tick(along(value), across + 18, end ? "end" : "start", number(value)));
    return [start, ...(high > low ? ends : [tick(along(low), across + 18, "middle", number(low))])];
  }
  const lines = wrapped(name, Math.floor(axis.width / 7.5), 3);
  const rows = lines.map((line, i) => makeSvg("tspan", { x: across, dy: i ? 14 : 0 }, line));
  const title = makeSvg("text", { x: across, y: 14, "text-anchor": "middle" }, makeSvg("title", {}, name), ...rows);
  const ends = high > low ? [tick(across, along(high) - 9, "middle", number(high))] : [];
  return [title, ...ends, tick(across, along(low) + 20, "middle", number(low))];
}

function tick(x, y, anchor, text) {
  return makeSvg("text", { x, y, class: "tick", "text-anchor": anchor }, text);
}

/** A rectangle along the axis, `half` to each side. */
function band(axis, from, to, half) {
  const [start, length] = [Math.min(from, to) - PAD, Math.abs(to - from) + 2 * PAD];
  return axis.upright
    ? { x: axis.across - half, width: 2 * half, y: start, height: length }
    : { y: axis.across - half, height: 2 * half, x: start, width: length };
}

function dragBrush(event, axis, s, view) {
  const svg = event.target.ownerSVGElement;
  const valueAt = (moved) => {
    const point = new DOMPoint(moved.clientX, moved.clientY).matrixTransform(svg.getScreenCTM().inverse());
    return axis.value(point.x, point.y);
  };
  const first = valueAt(event);
  const least = 0.02 * (axis.high - axis.low);
  let last = first;
  const follow = (moved) => {
    last = valueAt(moved);
    if (Math.abs(last - first) > least) view.brush(s, [Math.min(first, last), Math.max(first, last)]);
  };
  const end = () => {
    window.removeEventListener("pointermove", follow);
    if (Math.abs(last - first) <= least) view.brush(s, null);
  };
  window.addEventListener("pointermove", follow);
  window.addEventListener("pointerup", end, { once: true });
  window.addEventListener("pointercancel", end, { once: true });
}

function moveBound(event, axis, s, view) {
  const step = { ArrowUp: 1, ArrowRight: 1, ArrowDown: -1, ArrowLeft: -1, Escape: 0, Home: -Infinity, End: 0 }[event.key];
  if (step === undefined || axis.high <= axis.low) return;
  event.preventDefault();
  const [low, high] = view.brushes[s] ?? [axis.low, axis.high];
  const bound = Math.max(high + (step * (axis.high - axis.low)) / 20, axis.low);
  view.brush(s, step === 0 || bound >= axis.high ? null : [Math.min(low, bound), bound]);
}
