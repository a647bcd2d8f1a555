// The playground: asks the cascade as any client does, and shows each stage's turn; what another threshold would do.
"use strict";

let cascade = "";
let latest = null; // The page's state.
let evaluated = null; // Recent shadow evaluations, numbers alone.
const thumbs = new Map(); // Rows of a quality table, by question and stage; in this page only.
let asked = 0;

function playground(state) {
  latest = state;
  cascade = state.cascade;
  byId("play-section").hidden = !state.playground;
  if (state.playground) byId("play-key-label").hidden = !state.playground.keys;
  if (byId("what-if").childElementCount) whatIfs();
  else recorded();
}

// Asking.

async function complete(model, question) {
  const headers = { "content-type": "application/json", "x-cascadia-explain": "1" };
  const key = byId("play-key").value.trim();
  if (key) headers.authorization = `Bearer ${key}`;
  const began = performance.now();
  const body = JSON.stringify({ model, messages: [{ role: "user", content: question }] });
  const answer = await fetch("/v1/chat/completions", { method: "POST", headers, body, cache: "no-store", credentials: "omit" });
  const told = await answer.json();
  if (!answer.ok) throw new Error(told.error ? told.error.message : `HTTP ${answer.status}`);
  return { ...told, seconds: (performance.now() - began) / 1000 };
}

async function askCascade(event) {
  event.preventDefault();
  const question = byId("play-question").value.trim();
  if (!question) return;
  const button = byId("play").querySelector("button.main");
  const text = byId("play-said");
  button.disabled = true;
  text.className = "quiet";
  text.textContent = "asking …";
  byId("play-steps").replaceChildren();
  try {
    const told = await complete(cascade, question);
    asked += 1;
    const note = told.cascadia;
    const cost = note.usd === undefined ? "" : `, ${dollars(note.usd)}`;
    text.textContent = `Answered by ${note.stage} after ${seconds(told.seconds)}, ${count(note.usage.total_tokens)} tokens${cost}${note.stopped ? `; stopped: ${said(note.stopped)}` : ""}.`;
    byId("play-steps").append(...note.steps.map((step) => turn(step, note, told)));
    if (byId("play-all").checked) await askOthers(question, note.steps.map((step) => step.stage));
  } catch (error) {
    text.className = "bad-text";
    text.textContent = error.message;
  }
  button.disabled = false;
}

async function askOthers(question, seen) {
  for (const { name } of latest.stages) {
    if (seen.includes(name)) continue;
    const told = await complete(name, question);
    const usage = told.usage || {};
    const step = { stage: name, outcome: "beside", answer: told.choices[0].message.content || "", seconds: told.seconds,
      input_tokens: usage.prompt_tokens, output_tokens: usage.completion_tokens };
    byId("play-steps").append(turn(step, { stage: null }, told));
  }
}

function why(step, note) {
  if (step.outcome === "beside") return "asked beside the cascade, which did not need it";
  if (step.outcome === "accepted" && step.score === undefined) return "accepted: nothing has to be reached here";
  if (step.outcome === "accepted") return `accepted: ${step.score.toFixed(1)} reaches ${step.threshold}`;
  if (step.outcome === "score") return `passed on: ${step.score.toFixed(1)} is below ${step.threshold}${step.stage === note.stage ? ", yet the best there was" : ""}`;
  return `${said(step.outcome)}${step.judge_failure ? ` (${step.judge_failure})` : ""}`;
}

function turn(step, note, told) {
  const facts = [];
  if (step.seconds !== undefined) facts.push(`${seconds(step.seconds)}${step.judge_seconds ? `, ${seconds(step.judge_seconds)} of it judged` : ""}`);
  if (step.output_tokens) facts.push(`${count(step.input_tokens || 0)} tokens read, ${count(step.output_tokens)} written`);
  if (step.usd !== undefined) facts.push(dollars(step.usd));
  const kind = step.outcome === "accepted" ? "ok" : ["score", "threshold", "beside"].includes(step.outcome) ? "on" : "bad";
  const item = make("li", {}, make("div", { class: "row" }, make("b", {}, step.stage),
    make("span", { class: `pill ${kind}` }, why(step, note)), make("span", { class: "quiet" }, facts.join(" · "))));
  if (step.score !== undefined) {
    const got = make("span", { class: step.score >= step.threshold ? "got high" : "got" });
    got.style.width = `${step.score}%`;
    const at = make("span", { class: "bar-at" });
    at.style.left = `${Math.min(100, step.threshold)}%`;
    item.append(make("div", { class: "gate", "aria-hidden": "true" }, got, at));
  }
  if (step.answer !== undefined) {
    item.append(make("div", { class: "answer" }, step.answer || "(nothing)"));
    item.append(make("div", { class: "row" }, thumb("Good", 100, step, told), thumb("Bad", 0, step, told)));
  }
  return item;
}

// Thumbs: rows of a quality table, which `cascadia plan` and `cascadia judge train` read.

function thumb(text, quality, step, told) {
  const id = `playground-${told.created || 0}-${asked}`;
  const button = make("button", { type: "button", "aria-pressed": "false" }, text);
  button.addEventListener("click", () => {
    thumbs.set(`${id} ${step.stage}`, [id, step.stage, step.score === undefined ? quality : step.score, quality, step.input_tokens || 1, step.output_tokens || 1]);
    for (const other of button.parentNode.querySelectorAll("button")) other.setAttribute("aria-pressed", String(other === button));
    byId("play-save").disabled = false;
    byId("play-save").textContent = `Save ${thumbs.size} ${thumbs.size === 1 ? "thumb" : "thumbs"} as a quality table`;
  });
  return button;
}

function table_csv() {
  const quoted = (value) => (typeof value === "number" ? String(value) : `"${value.replaceAll('"', '""')}"`);
  const rows = [["prompt_id", "stage", "score", "quality", "input_tokens", "output_tokens"], ...thumbs.values()];
  return rows.map((row) => row.map(quoted).join(",")).join("\n") + "\n";
}

function save() {
  const link = make("a", { href: URL.createObjectURL(new Blob([table_csv()], { type: "text/csv" })), download: "thumbs.csv" });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

// What if a threshold were another.

async function recorded() {
  try {
    const answer = await fetch("/ui/evaluations", { cache: "no-store" });
    if (!answer.ok) return;
    evaluated = await answer.json();
  } catch (error) {
    return;
  }
  const rows = evaluated.stages.slice(0, -1).filter((stage) => stage.threshold > 0 && stage.threshold <= 100).map(whatIfRow);
  byId("what-if-section").hidden = !rows.length;
  byId("what-if").replaceChildren(...rows);
  const number = evaluated.evaluations.length;
  byId("what-if-from").textContent = number
    ? `From ${count(number)} shadow evaluations, in which every stage answered and was scored: quality is the judge's score of the answer given, ± two standard errors.`
    : "From the scores of the time chosen above. What it does to cost and quality is told where shadow evaluation is on.";
  whatIfs();
}

function whatIfRow(stage) {
  const id = `what-if-${stage.name}`;
  const range = make("input", { type: "range", id, min: 0, max: 100, step: 1, value: Math.round(stage.threshold), "data-stage": stage.name });
  range.addEventListener("input", whatIfs);
  return make("div", { class: "what-if-row" }, make("label", { for: id }, stage.name), range, make("b", {}), make("span", {}));
}

function played(thresholds) {
  // Of each evaluation what it would have cost, what quality it would have had, and who would have answered.
  const last = evaluated.stages.length - 1;
  return evaluated.evaluations.map((one) => {
    let cost = 0;
    for (let at = 0; ; at += 1) {
      const [score, read, wrote] = one[at];
      const [aRead, aWritten] = evaluated.stages[at].cost ?? [0, 0];
      cost += read * aRead + wrote * aWritten;
      if (at === last || score >= thresholds[at]) return { cost, quality: score, by: at };
    }
  });
}

const mean = (values) => values.reduce((a, b) => a + b, 0) / values.length;

function compared(at, threshold) {
  const today = evaluated.stages.map((stage) => stage.threshold);
  const before = played(today), after = played(today.map((value, i) => (i === at ? threshold : value)));
  const parts = [];
  if (evaluated.stages.every((stage) => stage.cost !== null)) {
    const change = mean(after.map((one) => one.cost)) / mean(before.map((one) => one.cost)) - 1;
    parts.push(Math.abs(change) < 0.0005 ? "as dear" : `${(100 * Math.abs(change)).toFixed(change > -0.1 && change < 0.1 ? 1 : 0)} % ${change < 0 ? "cheaper" : "dearer"}`);
  }
  const gains = after.map((one, i) => one.quality - before[i].quality);
  const gain = mean(gains);
  const error = Math.sqrt(mean(gains.map((value) => (value - gain) ** 2)) / Math.max(1, gains.length - 1));
  parts.push(`${Math.abs(gain).toFixed(1)} ± ${(2 * error).toFixed(1)} points ${gain < 0 ? "less" : "more"}`);
  const answers = (list) => share(list.filter((one) => one.by === at).length, list.length);
  parts.push(`answers ${answers(after)} instead of ${answers(before)}`);
  return parts.join(", ");
}

function fromScores(name, threshold) {
  // Of the scores that were given, by the bins of their histogram, who would be accepted.
  const stage = latest.stages.find((one) => one.name === name);
  const all = stage ? sum(stage.scores) : 0;
  if (!all) return "no scores yet";
  const accepted = (bar) => stage.scores.reduce((total, value, at) => total + (stage.score_bounds[at] > bar ? value : 0), 0);
  return `accepts about ${share(accepted(threshold), all)} instead of ${share(accepted(stage.threshold), all)}`;
}

function whatIfs() {
  for (const row of byId("what-if").children) {
    const [, range, value, text] = row.children;
    const at = evaluated.stages.findIndex((stage) => stage.name === range.dataset.stage);
    const threshold = Number(range.value);
    value.textContent = range.value;
    const same = Math.abs(threshold - evaluated.stages[at].threshold) < 0.5;
    text.textContent = same ? "in force" : evaluated.evaluations.length ? compared(at, threshold) : fromScores(range.dataset.stage, threshold);
    range.setAttribute("aria-valuetext", `${range.value}: ${text.textContent}`);
  }
}

byId("play").addEventListener("submit", askCascade);
byId("play-save").addEventListener("click", save);
