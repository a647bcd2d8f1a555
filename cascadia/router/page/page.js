// The live page: asks /ui/state every two seconds and shows it. What comes from the router is set as text, never as markup.
"use strict";

const EVERY_MS = 2000;
let paused = false;
let timer = 0;
let asking = null;

const WORDS = {
  score: "score too low", judge: "no verdict", threshold: "never accepted here", context: "prompt too long",
  predicted: "passed over by the question",
  overloaded: "overloaded", deadline: "deadline", refused: "refused by the engine", left: "client left",
  "first-byte": "no answer in time", total: "took too long", busy: "engine was full", status: "engine failed",
  unreadable: "no answer in it", failed: "a stage failed", "no-replica": "no replica", connect: "no connection", reset: "connection lost",
};
const said = (kind) => WORDS[kind] || kind;
const sum = (counts) => Object.values(counts).reduce((a, b) => a + b, 0);

// The parts of the page.

function tile(title, value, unit, note, points) {
  const box = make("div", { class: "tile" }, make("h2", {}, title));
  box.append(make("p", { class: "value" }, value, unit ? make("small", {}, ` ${unit}`) : null));
  if (note) box.append(make("p", { class: "quiet" }, note));
  if (points) box.append(spark(points));
  return box;
}

function spark(points) {
  // Where nothing was measured the line goes on as it was.
  const known = [];
  for (const value of points) known.push(value ?? known[known.length - 1] ?? 0);
  const top = Math.max(...known, 1e-9);
  const step = known.length > 1 ? 100 / (known.length - 1) : 100;
  const line = known.map((value, i) => `${(i * step).toFixed(1)},${(25 - (23 * value) / top).toFixed(1)}`);
  const picture = draw("svg", { viewBox: "0 0 100 26", preserveAspectRatio: "none", "aria-hidden": "true" });
  if (known.length > 1) {
    picture.append(
      draw("polygon", { class: "spark-area", points: `0,26 ${line.join(" ")} 100,26` }),
      draw("polyline", { class: "spark", points: line.join(" ") }),
    );
  }
  return picture;
}

function dollars(value) {
  return `$${value.toPrecision(3)}`;
}

function tiles(state) {
  const { requests, series, savings, judge } = state;
  const errors = Object.entries(requests.statuses).filter(([status]) => status >= "500" || status === "429");
  const failed = errors.reduce((all, [, value]) => all + value, 0);
  const kinds = errors.map(([status, value]) => `${count(value)} × ${status}`).join(", ");
  const all = sum(requests.statuses);
  const large = state.stages.length ? state.stages[state.stages.length - 1].name : "";
  const boxes = [
    tile("Requests", rate(requests.per_s), "/s", `${count(requests.count)} done, ${count(requests.in_flight)} now`,
      series.map((point) => point.per_s)),
    tile("Latency p50", seconds(requests.seconds.p50), "", `p95 ${seconds(requests.seconds.p95)}`,
      series.map((point) => point.p95_s)),
    tile("First byte p50", seconds(requests.ttft_s.p50), "", `p95 ${seconds(requests.ttft_s.p95)}`),
    tile("Failed", share(failed, all), "", failed ? kinds : "no 429 and no 5xx"),
  ];
  if (judge) {
    const without = sum(judge.failures);
    boxes.push(tile("Verdict p50", seconds(judge.seconds.p50), "",
      `${count(judge.verdicts)} by ${judge.kind}, ${without ? count(without) : "none"} failed`));
  }
  const { evaluated } = state;
  const signed = (value) => `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(1)}`;
  const held = !evaluated ? ""
    : `; of ${count(evaluated.number)} that all answered ${evaluated.saved === null ? "" : `${(100 * evaluated.saved).toFixed(0)}\u00a0±\u00a0${(100 * evaluated.saved_margin).toFixed(0)}\u00a0%, `}score\u00a0${signed(evaluated.points)}\u00a0±\u00a0${evaluated.points_margin.toFixed(1)}`;
  boxes.push(savings
    ? tile("Saved", `${(100 * savings.share).toFixed(0)} %`, "",
      savings.usd
        ? `${dollars(savings.usd.spent)} for ${dollars(savings.usd.alone)} of ${large} alone${held}`
        : `against ${large} alone: tokens × cost ${short.format(savings.spent)} for ${short.format(savings.alone)}${held}`)
    : tile("Saved", "–", "", "needs answers, and a cost for each stage"));
  byId("tiles").replaceChildren(...boxes);
}

function scores(stage) {
  const most = Math.max(...stage.scores);
  if (!most) return make("p", { class: "quiet" }, stage.threshold === null ? "accepts always" : "no verdicts yet");
  const bars = stage.scores.map((value, i) => {
    const upper = stage.score_bounds[i];
    const high = stage.threshold !== null && upper > stage.threshold;
    const size = (48 * value) / most;
    return draw("rect", { class: high ? "high" : "low", x: i * 5 - 4.5, y: 50 - size, width: 4, height: size });
  });
  const mean = `mean ${stage.score_mean.toFixed(0)}`;
  const picture = draw("svg", { class: "scores", viewBox: "-5 0 106 52", preserveAspectRatio: "none", role: "img",
    "aria-label": `Scores of ${stage.name}: ${mean}, threshold ${stage.threshold}` }, ...bars);
  if (stage.threshold !== null && stage.threshold <= 100) {
    picture.append(draw("line", { x1: stage.threshold, x2: stage.threshold, y1: 0, y2: 52 }));
  }
  const axis = make("div", { class: "axis", "aria-hidden": "true" }, make("span", {}, "0"),
    make("span", {}, `scores, ${mean}`), make("span", {}, "100"));
  return make("div", {}, picture, axis);
}

function exits(stage) {
  const found = stage.exits;
  if (!found) return [];
  const left = Object.entries(found.left).filter(([at]) => at !== "0");
  const all = sum(found.left);
  const places = left.map(([at, value]) => `${share(value, all)} at ramp ${at}`).join(", ");
  const force = found.setting ? `setting ${found.setting} of ${found.settings} certified` : "no setting certified";
  const gone = found.withdrawn ? `, withdrawn ${found.withdrawn} times` : "";
  return [
    make("span", { class: "x" }, make("b", {}, share(sum(Object.fromEntries(left)), all)), " left early",
      places ? ` (${places})` : "", `; ${force}${gone}`),
    spark(found.series),
  ];
}

function funnel(state) {
  const most = Math.max(...state.stages.map((stage) => stage.accepted + sum(stage.escalated)), 1);
  const rows = state.stages.map((stage) => {
    const gone = sum(stage.escalated);
    const all = stage.accepted + gone;
    const part = (value, kind) => {
      const bar = make("span", { class: kind });
      bar.style.width = `${(100 * value) / most}%`;
      return bar;
    };
    const threshold = stage.threshold === null ? "last stage, accepts always"
      : stage.threshold <= 0 ? "accepts all" : stage.threshold > 100 ? "accepts none" : `accepts from ${stage.threshold}`;
    const reasons = Object.entries(stage.escalated).sort((a, b) => b[1] - a[1])
      .map(([kind, value]) => make("span", { class: "e" }, make("b", {}, count(value)), ` ${said(kind)}`));
    return make("li", { class: "stage" },
      make("div", {}, make("p", { class: "name" }, stage.name), make("p", { class: "quiet" }, threshold)),
      make("div", {},
        make("div", { class: "bar", "aria-hidden": "true" }, part(stage.accepted, "accepted"), part(gone, "escalated")),
        make("p", { class: "said" },
          make("span", {}, make("b", {}, count(all)), " reached it"),
          make("span", { class: "a" }, make("b", {}, count(stage.accepted)), ` answered (${share(stage.accepted, all)})`),
          ...reasons, ...exits(stage))),
      scores(stage));
  });
  byId("funnel").replaceChildren(...rows);
}

function gearBars(points, number) {
  // Of each tick a column: the share of its requests in each gear, the heaviest at the bottom.
  const width = 100 / Math.max(points.length, 1);
  const picture = draw("svg", { class: "gear-bars", viewBox: "0 0 100 26", preserveAspectRatio: "none", "aria-hidden": "true" });
  points.forEach((point, at) => {
    const all = sum(point.gears);
    let top = 26;
    for (let gear = 0; gear < number && all; gear += 1) {
      const height = (26 * (point.gears[gear] || 0)) / all;
      top -= height;
      if (height) picture.append(draw("rect", { x: at * width, y: top, width: width * 1.02, height, "fill-opacity": depth(gear, number) }));
    }
  });
  return picture;
}

const depth = (gear, number) => (0.15 + (0.85 * gear) / Math.max(1, number - 1)).toFixed(2);

function gears(state) {
  const found = state.gears;
  byId("gears-section").hidden = !found;
  if (!found) return;
  const { ladder, series } = found;
  const lost = found.capacity < 0.995 ? ` ${Math.round(100 * found.capacity)} % of the planned load has replicas: borders shrink as much.` : "";
  byId("gears-now").textContent = `Gear ${found.in_force} is in force${found.pinned === null ? "" : ", pinned"}.${lost}`;
  const row = (name, most, picture) => make("div", { class: "row-time" },
    make("span", {}, name, make("small", { class: "quiet" }, ` ${most}`)), picture);
  const inFlight = series.map((point) => point.in_flight);
  const rates = state.series.map((point) => point.per_s);
  byId("gears-time").replaceChildren(
    row("Requests/s", `up to ${rate(Math.max(...rates, 0))}`, spark(rates)),
    row("In flight", `up to ${count(Math.max(...inFlight, 0))}`, spark(inFlight)),
    row("Gear", `0 pale, ${ladder.length - 1} dark`, gearBars(series, ladder.length)));
  const all = ladder.reduce((total, gear) => total + gear.count, 0);
  const rows = ladder.map((gear, number) => make("tr", number === found.in_force ? { class: "in-force" } : {},
    make("th", { scope: "row" }, `${number}`), make("td", { class: "left" }, gear.stages.join(" → ")),
    make("td", {}, gear.max_in_flight === null ? "any number" : count(gear.max_in_flight)),
    make("td", {}, count(gear.count)), make("td", {}, share(gear.count, all))));
  table(byId("gears"), "The heaviest first. A request keeps the gear that it met when it came.",
    [["gear"], ["stages asked", "left"], ["up to in flight"], ["requests"], ["share"]], rows);
}

const FIGURES = {
  rps: (value) => `${rate(value)} /s`, s: seconds, share: (value) => share(value, 1), score: (value) => value.toFixed(1),
  usd: (value) => `$${value < 1 ? value.toPrecision(2) : value.toFixed(2)}`,
};

function away(row) {
  // Shares and scores differ by points, the rest by a part of what was planned.
  if (row.measured === null) return "";
  const points = row.unit === "share" ? 100 * (row.measured - row.planned) : row.measured - row.planned;
  const signed = (value, text) => `${value < 0 ? "−" : "+"}${text}`;
  if (row.unit === "share" || row.unit === "score") return signed(points, `${Math.abs(points).toFixed(row.unit === "share" ? 0 : 1)} points`);
  return row.planned ? signed(points, share(Math.abs(points), row.planned)) : "";
}

function besidePlan(state) {
  const found = state.beside_plan;
  byId("planned-section").hidden = !found;
  if (!found) return;
  const rows = found.map((row) => {
    const said = FIGURES[row.unit];
    const measured = row.measured === null ? "–" : `${said(row.measured)}${row.off ? ` ± ${row.off.toFixed(1)}` : ""}`;
    return make("tr", {}, make("th", { scope: "row" }, row.what), make("td", {}, said(row.planned)), make("td", {}, measured),
      make("td", {}, away(row)));
  });
  table(byId("planned"), "Measured in the time chosen above. Dollars: the replicas that there are, and what APIs were sent.",
    [["figure", "left"], ["planned"], ["measured"], ["away by"]], rows);
}

function stages(state) {
  const heads = ["stage", "p50", "p95", "first part p95", "per token p50", "waiting", "wait p95", "tokens in", "tokens out", "errors"];
  const rows = state.stages.map((stage) => {
    const errors = sum(stage.errors);
    const kinds = Object.entries(stage.errors).map(([kind, value]) => `${count(value)} ${said(kind)}`).join(", ");
    const cells = [seconds(stage.seconds.p50), seconds(stage.seconds.p95), seconds(stage.ttft_s.p95), seconds(stage.tpot_s.p50),
      count(stage.waiting), stage.queue_s.p95 <= 0.001 ? "none" : seconds(stage.queue_s.p95), count(stage.input_tokens), count(stage.output_tokens)];
    return make("tr", {}, make("th", { scope: "row" }, stage.name), ...cells.map((text) => make("td", {}, text)),
      make("td", errors ? { class: "bad-text" } : {}, errors ? kinds : "none"));
  });
  table(byId("stages"), "Latencies of a stage's own answers, queue included.", heads.map((head) => [head]), rows);
}

function replicas(state) {
  const boxes = state.replicas.map((one) => {
    const open = one.breaker === "open" && one.state === "ready";
    const kind = open || one.state === "down" ? "bad" : one.state === "ready" ? "ok" : "on";
    const bar = make("span", {});
    bar.style.width = `${Math.min(100, (100 * one.running) / Math.max(1, one.room))}%`;
    return make("li", {},
      make("div", { class: "row" }, make("b", {}, one.name),
        make("span", { class: `state ${kind}` }, open ? "left alone after failures" : one.unhealthy ? `${one.state}: ${said(one.unhealthy)}` : one.state)),
      make("div", { class: "row quiet" }, make("span", {}, `${one.running} under way`), make("span", {}, `room for ${one.room}`)),
      make("div", { class: "bar", "aria-hidden": "true" }, bar), drainButton(state, one));
  });
  byId("replicas").replaceChildren(...boxes);
  byId("drain-row").hidden = !state.admin;
}

function drainButton(state, one) {
  // For who has a key that may: without one the router refuses.
  if (!state.admin) return null;
  const verb = one.state === "draining" || one.state === "drained" ? "undrain" : "drain";
  const button = make("button", { type: "button", class: "small", "aria-label": `${verb} ${one.name}` }, verb === "drain" ? "Drain" : "Back to work");
  button.addEventListener("click", () => drain(one.name, verb));
  return button;
}

async function drain(name, verb) {
  const text = byId("drain-said");
  const key = byId("admin-key").value.trim();
  if (!key) {
    text.textContent = "Give a key with the scope admin first.";
    byId("admin-key").focus();
    return;
  }
  try {
    const path = `/admin/replicas/${name.split("/").map(encodeURIComponent).join("/")}/${verb}`;
    const answer = await fetch(path, { method: "POST", headers: { authorization: `Bearer ${key}` }, credentials: "omit" });
    const told = await answer.json();
    text.textContent = answer.ok ? `${name}: ${verb === "drain" ? "nothing new for it" : "back to work"}` : told.error.message;
  } catch (error) {
    text.textContent = "no answer from the router";
  }
  ask();
}

function keys(state) {
  byId("keys-section").hidden = !state.keys || !state.keys.length;
  if (byId("keys-section").hidden) return;
  const most = (value) => (value === null ? "–" : count(value));
  const rows = state.keys.map((one) => {
    const over = one.usd_per_month !== null && one.usd >= one.usd_per_month;
    const budget = one.usd_per_month === null ? "–" : `$${one.usd_per_month.toFixed(2)} (${share(one.usd, one.usd_per_month)} spent)`;
    return make("tr", {}, make("th", { scope: "row" }, one.key), make("td", {}, `$${one.usd.toFixed(one.usd < 1 ? 4 : 2)}`),
      make("td", over ? { class: "bad-text" } : {}, budget), make("td", {}, most(one.requests_per_minute)),
      make("td", {}, most(one.tokens_per_minute)), make("td", {}, most(one.concurrent)));
  });
  table(byId("keys"), `Spent in ${state.keys[0].month} (UTC), by the prices of the stages' tokens; limits of each key.`,
    [["key", "left"], ["spent"], ["budget a month"], ["requests/min"], ["tokens/min"], ["at once"]], rows);
}

const clock = new Intl.DateTimeFormat("en-GB", { timeStyle: "medium" });

function steps(one) {
  if (!one.steps.length) return make("span", { class: "quiet" }, one.stage ? `straight to ${one.stage}` : "–");
  const path = make("span", { class: "path" });
  one.steps.forEach((step, i) => {
    if (i) path.append(make("span", { "aria-hidden": "true" }, "→"));
    const ordinary = ["accepted", "score", "threshold", "context", "judge"].includes(step.outcome);
    const kind = step.outcome === "accepted" || (one.stopped && step.stage === one.stage) ? "accepted" : ordinary ? "" : "failed";
    const note = step.score !== null ? ` ${step.score.toFixed(0)}` : step.outcome === "accepted" ? "" : ` ${said(step.outcome)}`;
    path.append(make("span", { class: `step ${kind}`, title: said(step.outcome) }, `${step.stage}${note}`));
  });
  return path;
}

const opened = new Set(); // Decisions that are shown in full, by request id.

function opener(one) {
  const time = clock.format(new Date(1000 * one.at_s));
  if (!one.steps.length) return time;
  const button = make("button", { type: "button", class: "open", "aria-expanded": String(opened.has(one.request_id)) }, time);
  button.addEventListener("click", () => {
    if (!opened.delete(one.request_id)) opened.add(one.request_id);
    if (latest) recent(latest);
  });
  return button;
}

function stepsRow(one) {
  const lines = one.steps.map((step) => {
    const score = step.score === null ? "" : `score ${step.score.toFixed(1)}${step.threshold === null ? "" : ` of ${step.threshold} needed`}`;
    return make("li", {}, make("b", {}, step.stage), " ",
      [step.outcome === "accepted" ? "accepted" : said(step.outcome), score, seconds(step.seconds), step.replica ? `on ${step.replica}` : ""].filter(Boolean).join(" · "));
  });
  return make("tr", { class: "opened" }, make("td"), make("td", { class: "left", colspan: "4" }, make("ol", {}, ...lines)));
}

function recent(state) {
  const rows = state.recent.slice(0, 20).map((one) => {
    const bad = one.status >= 500 || one.status === 429 || one.error;
    const end = one.error ? `${one.status} ${one.error}` : one.stopped ? `${one.status}, stopped: ${said(one.stopped)}` : `${one.status}`;
    const row = make("tr", {}, make("td", {}, opener(one)), make("td", { class: "left" }, steps(one)),
      make("td", {}, seconds(one.seconds)), make("td", bad ? { class: "left bad-text" } : { class: "left" }, end),
      make("td", { class: "left" }, make("code", {}, one.request_id || "")));
    return opened.has(one.request_id) ? [row, stepsRow(one)] : [row];
  }).flat();
  const none = make("tr", {}, make("td", { colspan: "5", class: "empty" }, "Nothing was asked yet."));
  const heads = [["time", ""], ["stages and scores", "left"], ["took", ""], ["status", "left"], ["request id", "left"]];
  table(byId("recent"), "The latest first. Prompts and answers are not kept.", heads, rows.length ? rows : [none]);
}

function health(text, kind) {
  const pill = byId("health");
  // Set only when it changes: it is read aloud.
  if (pill.textContent !== text) pill.textContent = text;
  pill.className = `pill ${kind}`;
}

function show(state) {
  if (state.draining) health("draining", "on");
  else if (state.ready) health("ready", "ok");
  else health("not ready", "bad");
  byId("version").textContent = state.version;
  const routers = state.routers > 1 ? `, ${state.routers} routers` : "";
  const processes = state.processes > 1 ? `, ${state.processes} processes` : "";
  byId("uptime").textContent = `up ${ago(state.uptime_s)}${routers}${processes}`;
  document.title = `${state.ready ? "" : "not ready · "}${state.cascade}`;
  tiles(state);
  funnel(state);
  gears(state);
  besidePlan(state);
  stages(state);
  replicas(state);
  keys(state);
  recent(state);
  playground(state);
}

// Asking.

async function ask() {
  clearTimeout(timer);
  if (asking) asking.abort();
  asking = new AbortController();
  const mine = asking;
  try {
    const wanted = new FormData(byId("controls")).get("window");
    const answer = await fetch(`/ui/state?window=${wanted}`, { signal: mine.signal, cache: "no-store" });
    if (!answer.ok) throw new Error(`HTTP ${answer.status}`);
    show(await answer.json());
  } catch (error) {
    if (mine.signal.aborted) return;
    health("no answer from the router", "bad");
  }
  if (!paused && !document.hidden) timer = setTimeout(ask, EVERY_MS);
}

byId("controls").addEventListener("change", ask);
byId("controls").addEventListener("submit", (event) => event.preventDefault());
byId("pause").addEventListener("click", () => {
  paused = !paused;
  byId("pause").setAttribute("aria-pressed", String(paused));
  byId("pause").textContent = paused ? "Paused" : "Pause";
  if (paused) clearTimeout(timer);
  else ask();
});
document.addEventListener("visibilitychange", () => {
  if (!document.hidden && !paused) ask();
});
ask();
