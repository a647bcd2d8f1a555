// The planner's page: sliders over what was tried, plans made on request, two of them side by side.
"use strict";

const EVERY_MS = 400;
const details = new Map(); // What each plan that is ready told, by its number.
let plans = [];
let sliders = [];
let shown = 0; // The plan whose limits are shown.

// Asking.

async function ask(path, body) {
  const options = body === undefined ? {} : { method: "POST", body: JSON.stringify(body), headers: { "content-type": "application/json" } };
  const answer = await fetch(path, { cache: "no-store", ...options });
  const told = await answer.json();
  if (!answer.ok) throw new Error(told.error);
  return told;
}

async function look() {
  try {
    const state = await ask("/plans");
    plans = state.plans;
    byId("version").textContent = state.version;
    byId("spec").textContent = state.spec;
    if (!sliders.length && state.sliders.length) makeSliders(state.sliders);
    for (const plan of plans) {
      if (plan.state === "ready" && !details.has(plan.number)) {
        details.set(plan.number, await ask(`/plans/${plan.number}`));
        choose(plan.number);
      }
    }
    show();
  } catch (error) {
    working("no answer from the planner", "bad");
  }
  if (plans.some((plan) => plan.state === "planning")) setTimeout(look, EVERY_MS);
}

async function begin(body) {
  byId("error").textContent = "";
  try {
    const { number } = await ask("/plans", body);
    if (details.has(number)) choose(number);
    await look();
  } catch (error) {
    byId("error").textContent = error.message;
  }
}

// Sliders.

function makeSliders(list) {
  sliders = list.map((told, at) => {
    const id = `slider-${at}`;
    const own = told.own === null ? -1 : told.stops.indexOf(told.own);
    const range = make("input", { type: "range", id, min: 0, max: told.stops.length - 1, step: 1 });
    const output = make("output", { for: id });
    const bound = told.own === null ? make("input", { type: "checkbox", "aria-label": `Bound: ${told.label}` }) : null;
    const box = make("div", { class: "slider" }, make("label", { for: id }, bound, told.label), output, range);
    const slider = { ...told, range, output, bound, box, at: own < 0 ? Math.floor(told.stops.length / 2) : own };
    range.addEventListener("input", () => { if (bound) bound.checked = true; show(); });
    if (bound) bound.addEventListener("change", show);
    return slider;
  });
  byId("sliders").replaceChildren(...sliders.map((slider) => slider.box));
  reset();
}

function reset() {
  for (const slider of sliders) {
    slider.range.value = slider.at;
    if (slider.bound) slider.bound.checked = false;
  }
}

const valueOf = (slider) => (slider.bound && !slider.bound.checked ? null : slider.stops[Number(slider.range.value)]);
const wanted = (key) => { const slider = sliders.find((one) => one.key === key); return slider ? valueOf(slider) : null; };

function said(slider) {
  const value = valueOf(slider);
  if (value === null) return "any";
  if (slider.key === "budget_usd_per_hour") return `$${whole.format(value)}/h`;
  if (slider.key === "latency_max_s") return seconds(value);
  return `${value}${slider.unit === "/s" || !slider.unit ? slider.unit : ` ${slider.unit}`}`;
}

function body() {
  const found = { gpus: {} };
  for (const slider of sliders) {
    const value = valueOf(slider);
    if (value === null || value === slider.own) continue;
    if (slider.key === "gpus") found.gpus[slider.pool] = value;
    else found[slider.key] = value;
  }
  return found;
}

// Of what was tried.

function bounds() {
  const gpus = {};
  for (const slider of sliders) if (slider.key === "gpus") gpus[slider.pool] = valueOf(slider);
  return { gpus, quality: wanted("quality_min"), usd: wanted("budget_usd_per_hour"), latency: wanted("latency_max_s"), rate: wanted("rate_rps") };
}

const fits = (point, b) =>
  (b.quality === null || point.quality >= b.quality) && (b.usd === null || point.usd_per_hour <= b.usd)
  && (b.latency === null || point.latency_s <= b.latency) && Object.entries(b.gpus).every(([pool, n]) => (point.gpus[pool] || 0) <= n);

const ORDERS = {
  latency: (p) => p.latency_s, cost: (p) => p.usd_per_hour, quality: (p) => -p.quality,
};

function bestOf(good, told) {
  // Of the goal latency, as the planner does it: the cheapest that is hardly slower than the fastest.
  const least = (list, order) => list.reduce((one, other) => (one === null || order(other) < order(one) ? other : one), null);
  const best = least(good, ORDERS[told.goal]);
  if (told.goal !== "latency" || best === null) return best;
  return least(good.filter((point) => point.latency_s <= best.latency_s * (1 + told.within)), ORDERS.cost);
}

function points(rate) {
  // Those of every plan at this rate.
  const found = [];
  for (const told of details.values()) if (Math.abs(told.rate_rps / rate - 1) < 0.005) found.push(...told.tried);
  return found;
}

function triedAt(told, rate) {
  // The plan at another rate, between those that were simulated.
  const rates = told.rates.filter(([at]) => at !== null);
  const above = rates.find(([at]) => at >= rate * 0.999);
  if (!above) return `the plan for ${rate_said(told.rate_rps)} was not tried so high`;
  if (above[2] === null) return `the plan for ${rate_said(told.rate_rps)} does not carry ${rate_said(above[0])}`;
  return `the plan for ${rate_said(told.rate_rps)} has p95 ${seconds(above[2])} at ${rate_said(above[0])}`;
}
const rate_said = (value) => `${Number(value.toPrecision(3))} requests/s`;

const places = () => (sliders.every((one) => one.key !== "gpus" || one.unit === "cores") ? "cores" : "GPUs");

function tried() {
  const told = details.get(shown);
  const b = bounds();
  const all = points(b.rate);
  const text = byId("tried");
  byId("tried-stages").textContent = "";
  if (!all.length) {
    text.textContent = `Nothing was tried at ${rate_said(b.rate)}; ${triedAt(told, b.rate)}. Plan this to know.`;
    byId("chart").replaceChildren();
    return;
  }
  const good = all.filter((point) => fits(point, b));
  const best = bestOf(good, told);
  if (best === null) {
    text.textContent = `None of the ${count(all.length)} best deployments tried meets these bounds. Plan this to know whether any does.`;
  } else {
    text.replaceChildren("The best that meets these bounds: quality ", make("b", {}, `≥ ${(Math.floor(best.quality * 10) / 10).toFixed(1)}`),
      `, ${told.quantile} `, make("b", {}, seconds(best.latency_s)), ", ", make("b", {}, `$${best.usd_per_hour.toFixed(2)}/h`),
      `, ${Object.values(best.gpus).reduce((x, y) => x + y, 0)} ${places()}; ${count(good.length)} of ${count(all.length)} do.`,
      best.chosen ? " It is a plan already." : " It was simulated, not yet held against long traffic: plan this for a plan.");
    byId("tried-stages").textContent = best.stages.join(" → ");
  }
  byId("chart").replaceChildren(chart(all, b, best, told));
}

function chart(all, b, best, told) {
  const [width, height, left, bottom, top, right] = [760, 310, 64, 40, 24, 36];
  const xs = all.map((p) => Math.log(p.latency_s));
  const ys = all.map((p) => p.quality);
  const span = (values) => { const low = Math.min(...values), high = Math.max(...values), pad = (high - low) * 0.06 || 0.5; return [low - pad, high + pad]; };
  const [x0, x1] = span(xs), [y0, y1] = span(ys);
  const x = (s) => left + ((Math.log(s) - x0) / (x1 - x0)) * (width - left - right);
  const y = (q) => height - bottom - ((q - y0) / (y1 - y0)) * (height - bottom - top);
  const picture = draw("svg", { viewBox: `0 0 ${width} ${height}`, role: "img",
    "aria-label": `Quality against latency of ${all.length} deployments that were tried` });
  const text = (at, words, more = {}) => draw("text", { x: at[0], y: at[1], ...more }, words);
  for (const share of [0, 0.25, 0.5, 0.75, 1]) {
    const s = Math.exp(x0 + share * (x1 - x0)), q = y0 + share * (y1 - y0);
    picture.append(draw("line", { class: "grid", x1: x(s), x2: x(s), y1: top, y2: height - bottom }),
      draw("line", { class: "grid", x1: left, x2: width - right, y1: y(q), y2: y(q) }),
      text([x(s), height - bottom + 16], seconds(s), { "text-anchor": "middle" }),
      text([left - 8, y(q) + 4], q.toFixed(1), { "text-anchor": "end" }));
  }
  picture.append(text([(left + width) / 2, height - 6], `${told.quantile} latency, log scale`, { "text-anchor": "middle" }),
    text([left - 48, 12], "quality, at least"));
  if (b.quality !== null && b.quality > y0 && b.quality < y1)
    picture.append(draw("line", { class: "bound", x1: left, x2: width - right, y1: y(b.quality), y2: y(b.quality) }));
  if (b.latency !== null && Math.log(b.latency) > x0 && Math.log(b.latency) < x1)
    picture.append(draw("line", { class: "bound", x1: x(b.latency), x2: x(b.latency), y1: top, y2: height - bottom }));
  const dot = (point, kind, r) => draw("circle", { class: kind, cx: x(point.latency_s), cy: y(point.quality), r },
    draw("title", {}, `quality ${point.quality.toFixed(1)}, ${seconds(point.latency_s)}, $${point.usd_per_hour.toFixed(2)}/h: ${point.stages.join(" → ")}`));
  for (const point of all) picture.append(dot(point, fits(point, b) ? "meets" : "", 4));
  for (const point of all) if (point.chosen) picture.append(dot(point, "planned", 8));
  if (best) picture.append(dot(best, "best", 6));
  return picture;
}

// Plans.

function asked(plan) {
  const words = Object.entries(plan.asked).flatMap(([key, value]) =>
    key === "gpus" ? Object.entries(value).map(([pool, n]) => `${n} × ${pool}`)
      : [{ quality_min: `quality ≥ ${value}`, rate_rps: `${value} requests/s`, budget_usd_per_hour: `at most $${value}/h`, latency_max_s: `within ${value} s` }[key]]);
  return words.length ? words.join(", ") : "the spec's own";
}

function listed() {
  const rows = plans.map((plan) => {
    const name = make("button", { type: "button", "aria-pressed": String(plan.number === shown) }, `${plan.number}`);
    name.disabled = plan.state !== "ready";
    name.addEventListener("click", () => { choose(plan.number); show(); });
    const better = plan.better ? ` Plan ${plan.better} keeps these bounds too, and is better.` : "";
    const state = plan.state === "ready" ? plan.headline + better : plan.state === "planning" ? `${plan.step} …` : plan.state === "stopped" ? "stopped" : plan.error;
    const files = make("td", { class: "left" });
    if (plan.state === "ready") {
      for (const [file, text] of [["plan.json", "plan"], ["report.html", "report"], ["plan.zip", "all files"]]) {
        files.append(make("a", { href: `/plans/${plan.number}/${file}`, ...(file === "report.html" ? { target: "_blank", rel: "noopener" } : {}) }, text), " ");
      }
    }
    return make("tr", {}, make("td", { class: "left" }, name), make("td", { class: "left" }, asked(plan)),
      make("td", { class: plan.state === "failed" ? "left bad-text" : "left" }, state), make("td", {}, `${plan.seconds.toFixed(0)} s`), files);
  });
  table(byId("plans"), "All files: plan.json, report.html and the manifests.", [["plan", "left"], ["asked for", "left"], ["found", "left"], ["took"], ["download", "left"]], rows);
}

function choose(number) {
  const before = shown;
  shown = number;
  const ready = [...details.keys()];
  for (const id of ["a", "b"]) {
    const select = byId(id);
    const value = select.value;
    select.replaceChildren(...ready.map((n) => make("option", { value: n }, `plan ${n}: ${asked(plans.find((p) => p.number === n))}`)));
    select.value = value;
  }
  if (!byId("a").value) byId("a").value = ready[0];
  if (number !== Number(byId("a").value)) byId("b").value = number;
  else if (!byId("b").value && before) byId("b").value = before;
}

function limits() {
  const told = details.get(shown);
  byId("limits-section").hidden = !told;
  if (!told) return;
  byId("h-limits").textContent = `What limits plan ${shown}`;
  byId("headline").textContent = told.headline;
  byId("command").textContent = told.command;
  byId("limits").replaceChildren(...told.limits.map((limit) => make("li", {}, make("b", {}, limit.name),
    make("span", { class: `pill ${limit.binds ? "on" : "ok"}` }, limit.binds ? "binds" : "has room"), make("span", {}, limit.text))));
}

function beside() {
  const [a, b] = ["a", "b"].map((id) => Number(byId(id).value));
  const [one, other] = [details.get(a), details.get(b)];
  byId("beside-section").hidden = details.size < 2 || !one || !other;
  if (byId("beside-section").hidden) return;
  const names = [...new Set([...one.facts, ...other.facts].map((fact) => fact.name))];
  const rows = names.map((name) => {
    const [left, right] = [one, other].map((told) => told.facts.find((fact) => fact.name === name));
    const known = left && right && left.value !== null && right.value !== null;
    const sign = known ? Math.sign(left.value - right.value) * (left.better === "low" ? 1 : -1) : 0;
    const change = known && left.value === right.value ? "same" : known && left.value ? `${right.value >= left.value ? "+" : "−"}${Math.abs(100 * (right.value / left.value - 1)).toFixed(1)} %` : "";
    return make("tr", {}, make("th", { scope: "row" }, name), make("td", { class: sign < 0 ? "better" : "" }, left ? left.text : "–"),
      make("td", { class: sign > 0 ? "better" : "" }, right ? right.text : "–"), make("td", {}, change));
  });
  table(byId("beside"), "The better of two figures is green.", [["", "left"], [`plan ${a}`], [`plan ${b}`], ["B against A"]], rows);
}

function working(text, kind) {
  const pill = byId("work");
  if (pill.textContent !== text) pill.textContent = text;
  pill.className = `pill ${kind}`;
}

function show() {
  const busy = plans.find((plan) => plan.state === "planning");
  working(busy ? `plan ${busy.number}: ${busy.step}, ${busy.seconds.toFixed(0)} s` : "ready", busy ? "on" : "ok");
  byId("plan").disabled = Boolean(busy) || !sliders.length;
  byId("stop").hidden = !busy;
  for (const slider of sliders) {
    slider.output.textContent = said(slider);
    slider.range.setAttribute("aria-valuetext", said(slider));
    slider.box.classList.toggle("changed", valueOf(slider) !== slider.own);
  }
  listed();
  if (!details.size) {
    byId("tried").textContent = plans.some((plan) => plan.state === "failed") ? "No plan yet: the spec's own was not to be had." : "The spec's own plan is being made.";
    return;
  }
  tried();
  limits();
  beside();
}

byId("asked").addEventListener("submit", (event) => { event.preventDefault(); begin(body()); });
byId("stop").addEventListener("click", () => ask("/stop", {}).then(look, () => {}));
byId("reset").addEventListener("click", () => { reset(); show(); });
for (const id of ["a", "b"]) byId(id).addEventListener("change", beside);
look();
