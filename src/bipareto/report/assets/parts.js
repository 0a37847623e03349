"use strict";
// Small parts of the page. Texts become text nodes, never markup.

const SVG = "http://www.w3.org/2000/svg";
const GLYPHS = {
  circle: "M5 0A5 5 0 1 1-5 0A5 5 0 1 1 5 0Z", square: "M-4.5-4.5H4.5V4.5H-4.5Z", "triangle-up": "M0-5.5L5.5 4.5H-5.5Z",
  diamond: "M0-6L6 0L0 6L-6 0Z", "triangle-down": "M0 5.5L5.5-4.5H-5.5Z", cross: "M-2-5.5H2V-2H5.5V2H2V5.5H-2V2H-5.5V-2H-2Z",
  x: "M-4-6L0-2L4-6L6-4L2 0L6 4L4 6L0 2L-4 6L-6 4L-2 0L-6-4Z", star: "M0-6L1.6-2H6L2.5 1L4 5.5L0 3L-4 5.5L-2.5 1L-6-2H-1.6Z",
};
const DASHES = { solid: "", dash: "7 4", dashdot: "7 3 2 3" };

function byId(id) {
  return document.getElementById(id);
}

function make(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

function makeSvg(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

/** Four significant digits or more; a dash for what is unknown. */
function number(value) {
  if (value === null || value === undefined) return "–";
  const size = Math.abs(value);
  if (value === 0) return "0";
  if (size < 1e-3 || size >= 1e6) return value.toExponential(2);
  return Number.isInteger(value) || size >= 1e4 ? value.toFixed(0) : value.toPrecision(4);
}

/** An entry of a preference. */
function share(value) {
  return value < 0.001 ? number(value) : value.toFixed(3);
}

/** A text for plotly, which reads some markup. */
function escaped(text) {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}

/** The lines of a text, of at most `width` characters, broken where there are spaces and cut after `most` lines. */
function wrapped(text, width = 18, most = 3) {
  const lines = [""];
  for (const word of text.split(/\s+/)) {
    const line = lines.at(-1);
    if (line && line.length + word.length >= width) lines.push(word);
    else lines[lines.length - 1] = line ? `${line} ${word}` : word;
  }
  const short = lines.slice(0, most).map((line) => (line.length > width ? `${line.slice(0, width - 1)}…` : line));
  if (lines.length > most) short[most - 1] += " …";
  return short;
}

function legendItem(look) {
  const pen = { stroke: look.colour, "stroke-width": 2, "stroke-dasharray": DASHES[look.dash] };
  const line = { x1: 0, x2: 26, y1: 8, y2: 8, ...pen };
  const mark = makeSvg("path", { d: GLYPHS[look.symbol], transform: "translate(13 8)", fill: look.colour });
  const picture = makeSvg("svg", { width: 26, height: 16, "aria-hidden": "true" }, makeSvg("line", line), mark);
  return make("li", {}, picture, look.label);
}

const WORDS = ["Ended", "Rests on"]; // columns of words, not of numbers

/** A table whose cells carry their column's name, for screens too narrow for columns. */
function table(heads, rows, label, stacked = true) {
  const kind = (head) => (WORDS.includes(head) ? "text" : false);
  const top = make("tr", {}, ...heads.map((head) => make("th", { scope: "col", class: kind(head) }, head)));
  const body = rows.map(({ cells, ...attributes }) => {
    return make("tr", attributes, ...cells.map((cell, i) => tableCell(cell, heads[i])));
  });
  const parts = [make("thead", {}, top), make("tbody", {}, ...body)];
  const whole = make("table", { class: stacked ? "stacked" : false, "aria-label": label }, ...parts);
  return make("div", { class: "framed" }, whole);
}

function tableCell(cell, head) {
  const { content, ...attributes } = cell instanceof Node || typeof cell === "string" ? { content: cell } : cell;
  return make("td", { "data-label": head, ...attributes }, content);
}
