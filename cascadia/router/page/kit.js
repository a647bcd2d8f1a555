// What the pages share: elements, and numbers as people say them. Text is set as text, never as markup.
"use strict";

const byId = (id) => document.getElementById(id);

// Making elements.

function make(tag, options = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(options)) {
    if (name === "class") element.className = value;
    else element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

function draw(tag, options, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(options)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

// Saying numbers.

const whole = new Intl.NumberFormat("en");
const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

function count(value) {
  return value < 100000 ? whole.format(Math.round(value)) : short.format(value);
}

function seconds(value) {
  if (value === null || value === undefined) return "–";
  if (value < 0.0995) return `${(1000 * value).toPrecision(2)} ms`;
  if (value < 0.9995) return `${Math.round(1000 * value)} ms`;
  if (value < 100) return `${value.toPrecision(3)} s`;
  return `${Math.round(value)} s`;
}

function share(part, all) {
  if (!all) return "–";
  const percent = (100 * part) / all;
  return `${percent > 0 && percent < 1 ? percent.toPrecision(1) : Math.round(percent)} %`;
}

function rate(value) {
  return value >= 100 ? count(value) : value.toPrecision(2);
}

function ago(value) {
  const steps = [[86400, "d"], [3600, "h"], [60, "min"]];
  for (const [size, unit] of steps) if (value >= size) return `${Math.floor(value / size)} ${unit}`;
  return `${Math.floor(value)} s`;
}

// Tables.

function table(element, caption, heads, rows) {
  const head = make("tr", {}, ...heads.map(([text, kind]) => make("th", { scope: "col", class: kind || "" }, text)));
  element.replaceChildren(make("caption", {}, make("span", {}, caption)), make("thead", {}, head), make("tbody", {}, ...rows));
}
