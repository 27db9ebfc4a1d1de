// The status page: asks the operator every five seconds and draws what it tells. Everything that it tells is set as
// text, never as markup, and nothing is asked of anybody else.

const POLL_MS = 5000;
const RETRY_MS = 1000; // after an operator that does not lead: the next connection may find the one that does
const STALE_MS = 3 * POLL_MS;
const UNSEEN_SECONDS = 180; // a consumer that rests is looked at every 15 s, one that keeps failing every 2 min
const MAX_ROWS = 64;
const EVENT_LEVELS = [0, 10, 100, 1000, 10000, 100000];
const SECOND_LEVELS = [0, 10, 60, 300, 900, 3600];
const TYPING_MS = 250;
const CHOICE = { search: "", state: "", sort: "name", page: "1" }; // of the list; the address has what differs from it
const STATES = { ok: "ok", notice: "worth a look", problem: "needs somebody" };

const $ = (id) => document.getElementById(id);
const numbers = new Intl.NumberFormat("en");
const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });
const exact = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const state = { tag: "", path: "", list: null, detail: null, answered: performance.now(), skew: 0, trouble: "", cursor: null };

// --- text -----------------------------------------------------------------------------------------------------------

const count = (value) => (value === null || value === undefined ? "not known" : numbers.format(value));
const at = (time) => (time ? exact.format(new Date(time)) : "");
const now = () => Date.now() + state.skew;

function duration(seconds) {
  if (seconds === null || seconds === undefined) return "not known";
  const whole = Math.max(0, Math.round(seconds));
  if (whole < 120) return `${whole} s`;
  if (whole < 7200) return `${Math.round(whole / 60)} min`;
  return whole < 172800 ? `${Math.round(whole / 3600)} h` : `${Math.round(whole / 86400)} d`;
}

const ago = (time) => (time ? `${duration((now() - new Date(time)) / 1000)} ago` : "never");
const bytes = (value) => {
  const power = value ? Math.min(4, Math.floor(Math.log(value) / Math.log(1024))) : 0;
  return `${(value / 1024 ** power).toFixed(power ? 1 : 0)} ${["B", "KiB", "MiB", "GiB", "TiB"][power]}`;
};
const ownedText = (partitions) => `${partitions.owned ?? "unknown"} of ${partitions.total ?? "unknown"}`;
const lagText = (lag) =>
  lag.events === null && lag.seconds === null ? "unknown" : lag.events === 0 ? "none" : `${count(lag.events)} events, ${duration(lag.seconds)}`;

// --- elements -------------------------------------------------------------------------------------------------------

function make(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  return fill(element, attributes, children);
}

function draw(name, attributes = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children.map((child) => (child instanceof Node ? child : String(child))));
  return element;
}

function replace(parent, children) {
  const focused = parent.contains(document.activeElement) ? document.activeElement.id : "";
  parent.replaceChildren(...children);
  if (focused) $(focused)?.focus();
}

function row(cells, table) {
  const labels = table ? [...table.querySelectorAll("thead th")].map((each) => each.textContent) : [];
  return make("tr", {}, ...cells.map((cell, index) => {
    const name = index ? "td" : "th";
    const attributes = index ? {} : { scope: "row" };
    if (labels.length) attributes["data-label"] = labels[index];
    return make(name, attributes, ...(cell === "" ? [] : [cell]));
  }));
}

const badge = (severity, text) => make("span", { class: `state ${severity}` }, text);

// --- the list -------------------------------------------------------------------------------------------------------

function chosen() {
  const given = new URLSearchParams(/^#\/\?(.*)$/.exec(location.hash)?.[1] ?? "");
  return Object.fromEntries(Object.entries(CHOICE).map(([name, usual]) => [name, given.get(name) || usual]));
}

function query(choice) {
  const differing = Object.entries(choice).filter(([name, value]) => value !== CHOICE[name]);
  return differing.length ? `?${new URLSearchParams(differing)}` : "";
}

function choose(changes) {
  const place = `#/${query({ ...chosen(), page: CHOICE.page, ...changes })}`;
  if (place === (location.hash || "#/")) return;
  history.replaceState(null, "", place);
  $("back").href = place;
  poll();
}

function showChoice() {
  const choice = chosen();
  // Not while somebody types: the address follows the field.
  if (document.activeElement !== $("filter")) $("filter").value = choice.search;
  $("state").value = choice.state;
  $("sort").value = choice.sort;
  $("back").href = location.hash || "#/";
}

function showList() {
  const { consumers: found, total, page, pages, states, found: number } = state.list;
  const bad = states.problem ? `, ${count(states.problem)} ${states.problem === 1 ? "needs" : "need"} somebody` : "";
  $("count").textContent = total ? `${count(number)} of ${count(total)}${bad}` : "No EventConsumer found yet.";
  $("pages").hidden = pages < 2;
  $("page").textContent = `Page ${count(page)} of ${count(pages)}`;
  $("previous").disabled = page <= 1;
  $("next").disabled = page >= pages;
  const table = $("consumers").closest("table");
  replace($("consumers"), found.map((each) => {
    const place = `${each.namespace}/${each.name}`;
    const link = make("a", { href: `#/${place}`, id: `to-${place}` }, place);
    const about = make("span", { title: each.message }, badge(each.severity, `${STATES[each.severity]}: ${each.reason || "unknown"}`));
    return row([
      link, about, lagText(each.lag), ownedText(each.partitions),
      `${each.hosts.ready} of ${each.hosts.desired}`, count(each.drained.files), ago(each.drained.lastFileTime),
    ], table);
  }));
}

// --- one consumer ---------------------------------------------------------------------------------------------------

function showDetail() {
  const found = state.detail;
  $("known").hidden = !found;
  if (!found) return;
  const { summary, spark, scaling } = found;
  const facts = [
    ["State", badge(summary.severity, STATES[summary.severity])],
    ["Lag", lagText(summary.lag)],
    ["Partitions owned", ownedText(summary.partitions)],
    ["Hosts ready", `${summary.hosts.ready} of ${summary.hosts.desired}`],
    ["Files", `${count(summary.drained.files)}, ${bytes(summary.drained.bytes)}`],
    ["Events in files", count(summary.drained.events)],
    ["Last file", ago(summary.drained.lastFileTime)],
  ];
  if (spark) facts.push(["Files waiting for Spark", `${count(spark.pendingFiles)}, ${bytes(spark.pendingBytes)}`]);
  if (scaling) facts.push(["Hosts desired", `${scaling.replicas}: ${scaling.reason}`]);
  replace($("facts"), facts.map(([name, value]) => make("div", {}, make("dt", {}, name), make("dd", {}, value))));
  const table = $("conditions").closest("table");
  replace($("conditions"), found.conditions.map((each) =>
    row([each.type, badge(each.severity, `${each.status}, ${each.reason}`), each.message, each.remedy, ago(each.since)], table)));
  replace($("hosts"), found.hosts.map((each) =>
    row([each.name, `${each.state || "does not answer"}${each.leads ? ", leads" : ""}`, each.state ? each.partitions : ""])));
  $("moves-count").textContent = found.moves.length;
  replace($("moves"), found.moves.map((each) => row([at(each.time), each.partition, each.source || "none", each.target || "none"])));
  $("batches-count").textContent = found.batches.length;
  replace($("batches"), found.batches.map((each) => row([
    each.number, each.reason, each.files ?? "", each.events === null ? "" : count(each.events), at(each.created),
    at(each.committed) || "not yet", each.rows === null ? "" : count(each.rows), each.seconds === null ? "" : duration(each.seconds),
  ])));
  replace($("partitions"), found.partitions.map((each) => row([
    each.id, each.owner || "nobody", at(each.tenures.at(-1)?.start), count(newest(each.events)), count(newest(each.seconds)),
  ])));
  drawCharts();
}

const newest = (values) => values.findLast((value) => value !== null) ?? null;

// --- charts ---------------------------------------------------------------------------------------------------------

const LEFT = 34;
const AXIS = 18;

function frame(svg, height) {
  const width = Math.max(200, svg.clientWidth || svg.parentElement.clientWidth);
  svg.setAttribute("viewBox", `0 0 ${width} ${height + AXIS}`);
  svg.setAttribute("height", height + AXIS);
  const { start, slotSeconds, slots } = state.detail.timeline;
  const first = start ? Date.parse(start) : 0;
  const span = slots * slotSeconds * 1000 || 1;
  const x = (time) => LEFT + ((Math.min(Math.max(time, first), first + span) - first) / span) * (width - LEFT - 4);
  const parts = [];
  const ticks = start ? (width < 600 ? 3 : 6) : 0;
  for (let tick = 0; tick <= ticks && ticks; tick += 1) {
    const time = first + (span * tick) / ticks;
    const anchor = tick === 0 ? "start" : tick === ticks ? "end" : "middle";
    parts.push(draw("line", { class: "axis", x1: x(time), x2: x(time), y1: 0, y2: height }));
    parts.push(draw("text", { x: x(time), y: height + 13, "text-anchor": anchor }, clock.format(new Date(time))));
  }
  return { first, span, x, parts, slotMs: slotSeconds * 1000, cell: (width - LEFT - 4) / (slots || 1) };
}

const level = (value, levels) => levels.findLastIndex((least) => value > least) + 1;

function shownPartitions() {
  const all = state.detail.partitions;
  if (all.length <= MAX_ROWS) return all;
  const worst = (each) => Math.max(0, ...each.events.map((value) => value ?? 0));
  const chosen = new Set([...all].sort((one, other) => worst(other) - worst(one)).slice(0, MAX_ROWS));
  return all.filter((each) => chosen.has(each));
}

const rowHeight = (rows) => (rows.length > 32 ? 10 : 14);

function label(index, height, text) {
  return draw("text", { x: LEFT - 5, y: index * height + height - 2.5, "text-anchor": "end" }, text);
}

function drawHeat() {
  const rows = shownPartitions();
  const height = rowHeight(rows);
  const measure = $("measure").value;
  const levels = measure === "events" ? EVENT_LEVELS : SECOND_LEVELS;
  const box = frame($("heat"), rows.length * height);
  rows.forEach((partition, index) => {
    if (height > 10 || index % 2 === 0) box.parts.push(label(index, height, partition.id));
    partition[measure].forEach((value, slot) => {
      if (value === null) return;
      box.parts.push(draw("rect", {
        class: `cell l${level(value, levels)}`, "data-row": index, "data-slot": slot,
        x: LEFT + slot * box.cell, y: index * height, width: Math.max(1, box.cell - 0.6), height: height - 1,
      }));
    });
  });
  const { total } = state.detail.summary.partitions;
  $("heat").setAttribute("aria-label", `Lag of ${rows.length} partitions in the last hour`);
  const kept = state.detail.partitions.length;
  $("rows").textContent = rows.length < kept ? `the ${rows.length} of ${total} partitions with the highest lag`
    : kept < total ? `${kept} of ${total} partitions: the operator's memory for histories is full` : "";
  $("heat").replaceChildren(...box.parts);
  const unit = measure === "events" ? count : duration;
  const names = ["none", ...levels.map((least, index) => index === levels.length - 1
    ? `over ${unit(least)}` : `to ${unit(levels[index + 1])}`)];
  replace($("levels"), names.map((name, index) => make("li", {}, swatch(`l${index}`), name)));
  drawCursor();
}

const swatch = (name) => draw("svg", { viewBox: "0 0 12 12", "aria-hidden": "true" }, draw("rect", { class: name, width: 12, height: 12 }));

function drawOwners() {
  const rows = shownPartitions();
  const height = rowHeight(rows);
  const box = frame($("owners"), rows.length * height);
  const names = new Set([...state.detail.hosts.map((host) => host.name), ...rows.flatMap((each) => each.tenures.map((one) => one.host))]);
  const hosts = [...names].filter(Boolean).sort((one, other) => one.localeCompare(other, "en", { numeric: true }));
  rows.forEach((partition, index) => {
    if (height > 10 || index % 2 === 0) box.parts.push(label(index, height, partition.id));
    for (const tenure of partition.tenures) {
      const begin = Date.parse(tenure.start);
      const end = tenure.end ? Date.parse(tenure.end) : box.first + box.span;
      if (end <= box.first) continue;
      const about = `partition ${partition.id}: ${tenure.host || "no owner"}\nfrom ${at(tenure.start)} ${tenure.end ? `to ${at(tenure.end)}` : "until now"}`;
      if (tenure.host) box.parts.push(draw("rect", {
        class: `tenure o${hosts.indexOf(tenure.host) % 8}`, "data-tip": about, x: box.x(begin), y: index * height,
        width: Math.max(1, box.x(end) - box.x(begin)), height: height - 1,
      }));
      if (tenure.end) box.parts.push(draw("line", { class: "move", x1: box.x(end), x2: box.x(end), y1: index * height, y2: index * height + height - 1 }));
    }
  });
  $("owners").replaceChildren(...box.parts);
  replace($("hosts-legend"), hosts.map((host, index) => make("li", {}, swatch(`o${index % 8}`), host)));
}

function drawFiles() {
  const { timeline, batches } = state.detail;
  const box = frame($("files"), 118);
  const most = Math.max(1, ...timeline.events.map((value) => value ?? 0));
  box.parts.push(draw("text", { x: 3, y: 11 }, `${numbers.format(most)} events`));
  timeline.events.forEach((value, slot) => {
    if (!value) return;
    const tall = Math.max(2, (value / most) * 66);
    const time = new Date(box.first + slot * box.slotMs);
    box.parts.push(draw("rect", {
      class: "bar", x: LEFT + slot * box.cell, y: 84 - tall, width: Math.max(1, box.cell - 0.6), height: tall,
      "data-tip": `${at(time)}: ${count(value)} events\nin ${count(timeline.files[slot])} files`,
    }));
  });
  box.parts.push(draw("line", { class: "axis", x1: LEFT, x2: box.x(box.first + box.span), y1: 84.5, y2: 84.5 }));
  batches.forEach((batch) => {
    const end = batch.committed ? Date.parse(batch.committed) : box.first + box.span;
    const begin = batch.created ? Date.parse(batch.created) : end - (batch.seconds ?? 0) * 1000;
    if (end < box.first) return;
    const y = 92 + (batch.number % 2) * 12;
    box.parts.push(draw("rect", {
      class: batch.committed ? "batch" : "batch open", x: box.x(begin), y, width: Math.max(3, box.x(end) - box.x(begin)), height: 10,
      "data-tip": `batch ${batch.number}${batch.reason ? ` (${batch.reason})` : ""}\n${batch.committed ? `committed ${at(batch.committed)}, ${count(batch.rows)} rows` : "not committed yet"}`,
    }));
  });
  $("files").replaceChildren(...box.parts);
}

function drawCharts() {
  if (!state.detail || $("detail").hidden) return;
  drawHeat();
  drawOwners();
  drawFiles();
}

// --- tips and keys --------------------------------------------------------------------------------------------------

function tip(text, box) {
  $("tip").hidden = !text;
  $("tip").textContent = text;
  if (!text) return;
  const { offsetWidth, offsetHeight } = $("tip");
  const left = Math.min(Math.max(4, box.left + box.width / 2 - offsetWidth / 2), window.innerWidth - offsetWidth - 4);
  const above = box.top - offsetHeight - 6;
  $("tip").style.left = `${left}px`;
  $("tip").style.top = `${above > 4 ? above : box.bottom + 6}px`;
}

function cellText(index, slot) {
  const partition = shownPartitions()[index];
  const time = Date.parse(state.detail.timeline.start) + slot * state.detail.timeline.slotSeconds * 1000;
  const reader = partition.tenures.findLast((each) => Date.parse(each.start) < time + state.detail.timeline.slotSeconds * 1000);
  const known = partition.events[slot] !== null || partition.seconds[slot] !== null;
  const lag = known ? `${count(partition.events[slot])} events, ${duration(partition.seconds[slot])} behind` : "lag unknown";
  return `partition ${partition.id}, ${at(time)}: ${lag}\nowner: ${reader ? reader.host || "none" : "unknown"}`;
}

const cellAt = (index, slot) => $("heat").querySelector(`.cell[data-row="${index}"][data-slot="${slot}"]`);

function drawCursor() {
  $("heat").querySelector(".cursor")?.remove();
  if (!state.cursor || document.activeElement !== $("heat")) return;
  const rows = shownPartitions();
  const height = rowHeight(rows);
  const { cell } = frame($("heat"), rows.length * height);
  const [index, slot] = state.cursor;
  const mark = draw("rect", { class: "cursor", x: LEFT + slot * cell - 1, y: index * height - 1, width: cell + 1, height: height + 1 });
  $("heat").append(mark);
  tip(cellText(index, slot), mark.getBoundingClientRect());
}

function moveCursor(event) {
  const steps = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
  const step = steps[event.key];
  if (event.key === "Escape") state.cursor = null;
  if (!step || !state.detail?.partitions.length) return event.key === "Escape" ? (drawCursor(), tip("")) : undefined;
  event.preventDefault();
  const rows = shownPartitions().length;
  const { slots } = state.detail.timeline;
  const [index, slot] = state.cursor ?? [step[0] < 0 ? rows : step[0] > 0 ? -1 : 0, slots - 1 - Math.min(0, step[1])];
  state.cursor = [Math.min(Math.max(0, index + step[0]), rows - 1), Math.min(Math.max(0, slot + step[1]), slots - 1)];
  return drawCursor();
}

function pointed(event) {
  const mark = event.target;
  if (mark.classList?.contains("cell")) tip(cellText(Number(mark.dataset.row), Number(mark.dataset.slot)), mark.getBoundingClientRect());
  else if (mark.dataset?.tip) tip(mark.dataset.tip, mark.getBoundingClientRect());
  else if (document.activeElement !== $("heat")) tip("");
}

// --- asking ---------------------------------------------------------------------------------------------------------

const wanted = () => {
  const found = /^#\/([^/?]+)\/([^/?]+)$/.exec(location.hash);
  return found ? `${found[1]}/${found[2]}` : "";
};

const pathOf = (place) => (place ? `api/consumers/${place}` : `api/consumers${query(chosen())}`);

async function ask() {
  const place = wanted();
  const path = pathOf(place);
  try {
    const response = await fetch(path, { cache: "no-cache", signal: AbortSignal.timeout(2 * POLL_MS) });
    const date = Date.parse(response.headers.get("date"));
    if (date) state.skew = date - Date.now();
    if (path !== pathOf(wanted())) return 0;
    if (response.status === 404) answered(place, null, "");
    else if (response.ok) {
      const tag = response.headers.get("etag");
      if (state.path !== path || state.tag !== tag) answered(place, await response.json(), tag);
      else state.answered = performance.now();
    } else {
      state.trouble = (await response.json()).error;
      return response.status === 503 ? RETRY_MS : POLL_MS;
    }
    state.path = path;
    state.trouble = "";
  } catch (error) {
    state.trouble = `no answer (${error.name})`;
  }
  return POLL_MS;
}

function answered(place, content, tag) {
  state.answered = performance.now();
  state.tag = tag;
  if (!place) {
    state.list = content;
    showList();
    return;
  }
  state.detail = content;
  $("gone").hidden = Boolean(content);
  $("gone").textContent = content ? "" : "This EventConsumer does not exist, or its namespace is not served by the operator.";
  showDetail();
}

function showFreshness() {
  const since = performance.now() - state.answered;
  const seen = state.detail && wanted() ? (now() - Date.parse(state.detail.summary.observedAt)) / 1000 : 0;
  let stale = "";
  if (since > STALE_MS) {
    stale = `Stale: no answer from the operator since ${at(Date.now() - since)}${state.trouble ? `: ${state.trouble}` : ""}. `
      + "If this persists, check the operator's pod and restart the port-forward.";
  } else if (seen > UNSEEN_SECONDS) {
    stale = `Stale: the operator last reconciled this EventConsumer at ${at(state.detail.summary.observedAt)}. See its log.`;
  }
  $("stale").hidden = !stale;
  if ($("stale").textContent !== stale) $("stale").textContent = stale;
  document.body.classList.toggle("is-stale", Boolean(stale));
  $("freshness").textContent = state.path ? `Read-only. Updated ${duration(since / 1000)} ago` : state.trouble || "Loading…";
}

let timer = 0;
let asking = 0;

async function poll() {
  clearTimeout(timer);
  asking += 1;
  const mine = asking;
  const pause = await ask();
  showFreshness();
  if (mine === asking) timer = setTimeout(poll, pause);
}

function route() {
  const place = wanted();
  const change = $("detail").hidden === Boolean(place) || $("title").textContent !== place;
  if (!place) showChoice();
  $("list").hidden = Boolean(place);
  $("detail").hidden = !place;
  state.detail = null;
  state.cursor = null;
  state.tag = "";
  tip("");
  $("gone").hidden = true;
  $("title").textContent = place;
  document.title = place ? `${place} · EventConsumer` : "EventConsumer";
  showDetail();
  if (change) $(place ? "title" : "list-title").focus();
  poll();
}

let typing = 0;
$("filter").addEventListener("input", () => {
  clearTimeout(typing);
  typing = setTimeout(() => choose({ search: $("filter").value.trim() }), TYPING_MS);
});
for (const name of ["state", "sort"]) $(name).addEventListener("change", () => choose({ [name]: $(name).value }));
$("previous").addEventListener("click", () => choose({ page: String(state.list.page - 1) }));
$("next").addEventListener("click", () => choose({ page: String(state.list.page + 1) }));
$("measure").addEventListener("change", drawCharts);
$("heat").addEventListener("keydown", moveCursor);
$("heat").addEventListener("blur", () => { tip(""); drawCursor(); });
$("heat").addEventListener("focus", drawCursor);
document.addEventListener("pointerover", pointed);
document.addEventListener("visibilitychange", () => document.hidden || poll());
addEventListener("hashchange", route);
let drawn = 0;
new ResizeObserver(([entry]) => {
  if (entry.contentRect.width === drawn) return; // drawing changes the height, and must not go round in circles
  drawn = entry.contentRect.width;
  requestAnimationFrame(drawCharts);
}).observe(document.querySelector("main"));
setInterval(showFreshness, 1000);
route();
