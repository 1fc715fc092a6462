"use strict";
// The page's two moving parts: tables that sort, and the browser of samples. All text enters through textContent.
const data = JSON.parse(document.getElementById("grail-data").textContent);
const byId = (id) => document.getElementById(id);

function element(tag, className, text) {
  const node = document.createElement(tag);
  if (className) node.className = className;
  if (text !== undefined) node.textContent = text;
  return node;
}

// ---- tables: a click on a header sorts, numbers first from the top; blank cells stay last both ways
function sortBy(header) {
  const table = header.closest("table"), body = table.tBodies[0];
  const column = Number(header.dataset.column), numeric = header.dataset.kind !== "text";
  const now = header.getAttribute("aria-sort");
  const down = now ? now === "ascending" : numeric;
  table.querySelectorAll("th[aria-sort]").forEach((other) => other.removeAttribute("aria-sort"));
  header.setAttribute("aria-sort", down ? "descending" : "ascending");
  const value = (row) => row.cells[column].dataset.value ?? "";
  const rows = [...body.rows].sort((one, two) => {
    const a = value(one), b = value(two);
    if (a === "" || b === "") return (a === "") - (b === "");
    const order = numeric ? Number(a) - Number(b) : a.localeCompare(b, "en", { numeric: true });
    return down ? -order : order;
  });
  body.append(...rows);
}
document.querySelectorAll("th[data-column] button").forEach((button) =>
  button.addEventListener("click", () => sortBy(button.closest("th"))));

// ---- samples: kept as compressed blocks in the page, opened when looked at
const opened = new Map();
function block(id) {
  if (!opened.has(id)) opened.set(id, unpack(byId(id)));
  return opened.get(id);
}
async function unpack(holder) {
  if (!holder) return null;
  const bytes = Uint8Array.from(atob(holder.textContent), (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}

const SIDES = data.models.length > 1 ? ["model-a", "model-b"] : ["model-a"];
const view = { index: null, shown: [], at: -1, turn: 0 };
const chosen = (id) => Number(byId(id).value);
const share = (verdicts) => [...verdicts].filter((v) => v === "c").length / verdicts.length;

const FILTERS = {
  "all": () => true,
  "a-only": (a, b) => a && b && share(a) > 0.5 && share(b) <= 0.5,
  "b-only": (a, b) => a && b && share(b) > 0.5 && share(a) <= 0.5,
  "both": (a, b) => a && b && share(a) > 0.5 && share(b) > 0.5,
  "neither": (a, b) => a && b && share(a) <= 0.5 && share(b) <= 0.5,
  "more-a": (a, b) => a && b && share(a) > share(b),
  "more-b": (a, b) => a && b && share(b) > share(a),
  "unsettled": (a, b) => /[^cw]/.test((a || "") + (b || "")),
};

async function list() {
  const turn = ++view.turn, suite = chosen("suite");
  const index = await block(`index-${suite}`);
  if (turn !== view.turn) return; // a later choice has overtaken this one
  view.index = index;
  const a = index.verdicts[chosen("model-a")], b = index.verdicts[chosen("model-b")];
  const keep = FILTERS[byId("filter").value], words = byId("find").value.toLowerCase().split(/\s+/).filter(Boolean);
  view.shown = index.ids.map((_, i) => i).filter((i) => {
    const text = `${index.ids[i]} ${index.questions[i]}`.toLowerCase();
    return keep(a[i], b[i]) && words.every((word) => text.includes(word));
  });
  byId("problems").replaceChildren(...view.shown.map((i, place) => {
    const item = element("li");
    const scores = SIDES.length > 1 ? `A ${score(a[i])}   B ${score(b[i])}` : score(a[i]);
    item.append(element("span", "id", `${index.ids[i]}   ${scores}`),
      element("span", "q", index.questions[i]));
    item.addEventListener("click", () => show(place));
    return item;
  }));
  byId("count").textContent = `${view.shown.length} of ${index.ids.length} problems`;
  view.at = -1;
  if (view.shown.length) await show(0);
  else byId("detail").replaceChildren(element("p", "hint", "No problem fits."));
}

function score(verdicts) {
  return verdicts ? `${[...verdicts].filter((v) => v === "c").length}/${verdicts.length}` : "no data";
}

async function show(place) {
  if (place < 0 || place >= view.shown.length) return;
  view.at = place;
  const items = byId("problems").children, i = view.shown[place], index = view.index, turn = ++view.turn;
  [...items].forEach((item, n) => n === place ? item.setAttribute("aria-current", "true") : item.removeAttribute("aria-current"));
  reveal(byId("problems"), items[place]);
  const suite = chosen("suite"), part = Math.floor(i / data.chunk), sides = SIDES.map(chosen);
  const parts = await Promise.all(sides.map((model) => block(`samples-${suite}-${model}-${part}`)));
  if (turn !== view.turn) return;
  const samples = parts.map((rows) => (rows && rows[i % data.chunk]) || []);
  const detail = byId("detail");
  const question = element("pre", "question", index.questions[i]);
  detail.replaceChildren(element("h3", "", `Problem ${index.ids[i]}`), question, element("p", "meta", `Gold answer: ${index.golds[i]}`));
  const heads = element("div", "pair");
  sides.forEach((model, side) => heads.append(element("h3", "",
    `${sides.length > 1 ? `${"AB"[side]}: ` : ""}${data.models[model]}, ${score(index.verdicts[model][i])} right`)));
  detail.append(heads);
  const most = Math.max(...samples.map((rows) => rows.length));
  for (let n = 0; n < most; n++) {
    const pair = element("div", "pair");
    samples.forEach((rows) => pair.append(rows[n] ? completion(rows[n], n, n === 0) : element("p", "hint", "no sample")));
    detail.append(pair);
  }
  if (!most) detail.append(element("p", "hint", "Not sampled on this problem."));
}

function reveal(list, item) { // scrolls the list only: the page stays where the reader is
  const top = item.offsetTop - list.offsetTop;
  if (top < list.scrollTop) list.scrollTop = top;
  else if (top + item.offsetHeight > list.scrollTop + list.clientHeight) list.scrollTop = top + item.offsetHeight - list.clientHeight;
}

const CHIPS = { correct: ["right", "\u2713 correct"], wrong: ["wrong", "\u2717 wrong"], no_box: ["other", "\u2205 no box"],
  timeout: ["other", "? timeout"], error: ["other", "? error"], unparseable_gold: ["other", "? gold unreadable"] };

function completion(sample, n, open) {
  const box = element("details"), head = element("summary"), [kind, word] = CHIPS[sample.v] || ["other", `? ${sample.v}`];
  box.open = open;
  head.append(element("span", `chip ${kind}`, word), element("span", "", sample.p === null ? "" : sample.p), element("br"));
  const facts = [`sample ${n}`, `${sample.t} tokens`, sample.r && `rule ${sample.r}`, sample.f && `ended by ${sample.f}`];
  head.append(element("span", "meta", facts.filter(Boolean).join(", ")));
  const text = element("pre", "completion");
  const start = sample.s.lastIndexOf("\\boxed{"), end = start < 0 ? -1 : closing(sample.s, start + 7);
  if (end < 0) text.textContent = sample.s;
  else text.append(sample.s.slice(0, start), element("mark", "", sample.s.slice(start, end)), sample.s.slice(end));
  box.append(head, text);
  return box;
}

function closing(text, from) { // the index after the brace that closes the box, or -1
  for (let depth = 1, i = from; i < text.length; i++) {
    if (text[i] === "\\") i++;
    else if (text[i] === "{") depth++;
    else if (text[i] === "}" && --depth === 0) return i + 1;
  }
  return -1;
}

function start() {
  if (typeof DecompressionStream === "undefined") {
    byId("detail").replaceChildren(element("p", "hint", "This browser is too old to open the samples (needs DecompressionStream)."));
    return;
  }
  data.suites.forEach((name, i) => byId("suite").append(new Option(name, i)));
  for (const side of ["model-a", "model-b"]) data.models.forEach((name, i) => byId(side).append(new Option(name, i)));
  byId("samples").classList.toggle("single", SIDES.length === 1);
  byId("model-a").value = data.pair[0];
  byId("model-b").value = data.pair[1];
  for (const id of ["suite", "model-a", "model-b", "filter"]) byId(id).addEventListener("change", list);
  byId("find").addEventListener("input", list);
  byId("controls").addEventListener("submit", (event) => event.preventDefault());
  document.addEventListener("keydown", (event) => {
    if (/^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName) || event.ctrlKey || event.metaKey || event.altKey) return;
    const inList = event.target.id === "problems";
    if (event.key === "j" || (inList && event.key === "ArrowDown")) { event.preventDefault(); show(view.at + 1); }
    if (event.key === "k" || (inList && event.key === "ArrowUp")) { event.preventDefault(); show(view.at - 1); }
  });
  list();
}
start();
