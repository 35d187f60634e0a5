// The calendar's page: what is booked on every link, the network now, and a form that asks. No library.
"use strict";
const $ = (id) => document.getElementById(id);
const NS = "http://www.w3.org/2000/svg";
const HOUR = 3600e3;
let token = sessionStorage.getItem("farline-token") || "";
let topology, links, circuits = new Map(), reservations = new Map();
let shown = { start: 0, hours: 24 }, mark = null, cursor = null, asking = null;

function node(name, attributes, text) {
  const made = document.createElementNS(NS, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}
function element(name, text, kind) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  if (kind) made.className = kind;
  return made;
}
function rate(bps) {
  const [value, unit] = bps >= 1e9 ? [bps / 1e9, "Gbit/s"] : bps >= 1e6 ? [bps / 1e6, "Mbit/s"] : [bps / 1e3, "kbit/s"];
  return `${Number(value.toPrecision(3))} ${unit}`;
}
function when(text) {
  return new Date(text).toLocaleString([], { month: "short", day: "numeric", hour: "2-digit", minute: "2-digit" });
}
async function ask(method, path, body, key) {
  const headers = { Authorization: `Bearer ${token}` };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  if (key) headers["Idempotency-Key"] = key;
  const reply = await fetch(path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body) });
  const text = await reply.text();
  const said = text ? JSON.parse(text) : null;
  if (!reply.ok) throw Object.assign(new Error(said && said.detail || `status ${reply.status}`), { problem: said, status: reply.status });
  return said;
}

async function load() {
  const start = new Date(shown.start).toISOString();
  const end = new Date(shown.start + shown.hours * HOUR).toISOString();
  const [free, all, now] = await Promise.all([
    ask("GET", `/v1/links?start=${encodeURIComponent(start)}&end=${encodeURIComponent(end)}`),
    every(), ask("GET", "/v1/circuits"),
  ]);
  links = free.links;
  reservations = new Map(all.map((known) => [known.id, known]));
  circuits = new Map();
  for (const known of now.circuits) {
    const { id } = known.report;
    circuits.set(id, [...(circuits.get(id) || []), known]);
  }
  draw();
}
// What agents say of a reservation's circuits: of one route alone where `number` says which.
function said(id, number) {
  const all = (circuits.get(id) || []).filter((known) => number === undefined || known.report.number === number);
  const up = all.filter((known) => known.report.up).length;
  const trouble = all.filter((known) => known.report.trouble).map((known) => {
    const who = [`c${known.report.number}`, known.report.site && `at ${known.report.site}`].filter(Boolean).join(" ");
    return `${who}: ${known.report.trouble}`;
  });
  const state = !all.length ? "" : up === all.length ? "up" : up ? `${up} of ${all.length} up` : "ready";
  return { up: all.length > 0 && up === all.length, trouble, state };
}
// The number of a leg's circuit: legs over one route are one circuit.
function numberOf(known, leg) {
  const routes = [...new Set(known.legs.map((leg) => leg.route.join(" ")))];
  return Number(known.id.slice(2)) * 16 + routes.indexOf(leg.route.join(" "));
}
async function every() {
  const all = [];
  for (let path = "/v1/reservations"; path;) {
    const page = await ask("GET", path);
    all.push(...page.reservations);
    path = page.next ? `/v1/reservations?after=${page.next}` : null;
  }
  return all;
}

function draw() { drawMap(); drawLanes(); drawList(); }

function drawMap() {
  const svg = $("map"), sites = topology.sites.map((site) => site.name);
  // As wide as the screen lets it be, so that names stay as large as other text.
  const width = Math.max(340, svg.clientWidth || 640), place = new Map();
  const now = Date.now(), legs = [...reservations.values()].filter((known) => known.state === "provisioned")
    .flatMap((known) => known.legs.filter((leg) => Date.parse(leg.start) <= now && now < Date.parse(leg.end)).map((leg) => [known, leg]));
  const above = 20 + 7 * Math.min(8, legs.length);
  svg.replaceChildren();
  // A chain is a line; anything else a ring.
  const chain = sites.every((site, at) => at === 0 || topology.links.some((link) => link.from === sites[at - 1] && link.to === site))
    && topology.links.every((link) => Math.abs(sites.indexOf(link.from) - sites.indexOf(link.to)) === 1);
  svg.setAttribute("viewBox", `0 0 ${width} ${above + (chain ? 50 : 180)}`);
  sites.forEach((site, at) => place.set(site, chain
    ? [44 + at * (width - 88) / Math.max(1, sites.length - 1), above + 10]
    : [width / 2 + Math.min(360, width / 2 - 60) * Math.cos(2 * Math.PI * at / sites.length - Math.PI / 2), above + 76 + 66 * Math.sin(2 * Math.PI * at / sites.length - Math.PI / 2)]));
  const seen = new Map();
  topology.links.filter((link) => sites.indexOf(link.from) < sites.indexOf(link.to)).forEach((link) => {
    const pair = `${link.from} ${link.to}`, many = seen.get(pair) || 0;
    seen.set(pair, many + 1);
    const [[x1, y1], [x2, y2]] = [place.get(link.from), place.get(link.to)];
    svg.append(node("line", { x1, y1: y1 + (many - .5) * 8, x2, y2: y2 + (many - .5) * 8, class: "fibre" }));
  });
  legs.forEach(([known, leg], lane) => {
    const { up, trouble } = said(known.id, numberOf(known, leg));
    const path = leg.route.map((name) => topology.links.find((link) => link.name === name)).filter(Boolean);
    const shift = -14 - 7 * (lane % 8);
    const points = [path[0].from, ...path.map((link) => link.to)].map((site) => place.get(site)).map(([x, y]) => `${x},${y + shift}`);
    const drawn = node("polyline", { points: points.join(" "), class: up && !trouble.length ? "circuit" : "circuit down", "stroke-width": 2 + Math.min(4, leg.rate_bps / 2e9) });
    drawn.append(node("title", {}, `${known.id} ${rate(leg.rate_bps)} ${known.from} to ${known.to}, ${[up ? "up" : "not up", ...trouble].join("; ")}`));
    svg.append(drawn);
  });
  for (const [site, [x, y]] of place) {
    svg.append(node("circle", { cx: x, cy: y, r: 9, class: "site" }));
    svg.append(node("text", { x, y: y + 30, "text-anchor": "middle" }, site));
  }
}

const ROW = 26, TOP = 22;
let LABEL = 150;
function scale(width) { return (time) => LABEL + (time - shown.start) / (shown.hours * HOUR) * (width - LABEL); }
// The links' names, and room for the longest of them: at most so much, and then the end of it, which says which
// of several links it is.
function nameLinks(svg, narrow, most) {
  const names = links.map((link, at) => node("text", { x: 0, y: TOP + at * ROW + 14, class: "soft name" }, link.link.replace(">", narrow ? "\u2192" : " \u2192 ")));
  svg.append(...names);
  for (const name of names) for (let end = name.textContent; end && name.getComputedTextLength() > most;) {
    end = end.slice(1);
    name.textContent = `\u2026${end}`;
  }
  LABEL = Math.ceil(Math.max(60, ...names.map((name) => name.getComputedTextLength()))) + 8;
}
function drawLanes() {
  const svg = $("lanes"), width = Math.max(340, svg.clientWidth || 900), height = TOP + links.length * ROW + 4;
  const narrow = width < 600;
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.replaceChildren();
  nameLinks(svg, narrow, width * .4);
  const x = scale(width);
  const step = shown.hours / (narrow ? 3 : 6) * HOUR;
  for (let time = Math.ceil(shown.start / step) * step; time < shown.start + shown.hours * HOUR; time += step) {
    svg.append(node("line", { x1: x(time), x2: x(time), y1: TOP - 4, y2: height, class: "axis" }));
    const label = shown.hours > 24 ? new Date(time).toLocaleDateString([], { month: "short", day: "numeric" }) : new Date(time).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
    if (x(time) + 60 < width) svg.append(node("text", { x: x(time) + 3, y: 13, class: "soft" }, label));
  }
  links.forEach((link, at) => {
    const y = TOP + at * ROW, h = ROW - 6;
    svg.append(node("rect", { x: LABEL, y, width: width - LABEL, height: h, class: "free" }));
    for (const piece of link.intervals) {
      const part = 1 - piece.free_bps / link.rate_bps;
      if (part <= 0) continue;
      const [from, to] = [x(Date.parse(piece.start)), x(Date.parse(piece.end))];
      const box = node("rect", { x: from, y: y + h * (1 - part), width: Math.max(.5, to - from), height: h * part, class: "booked" });
      box.append(node("title", {}, `${link.link}: ${rate(piece.free_bps)} of ${rate(link.rate_bps)} free, ${when(piece.start)} to ${when(piece.end)}`));
      svg.append(box);
    }
  });
  const now = x(Date.now());
  if (now >= LABEL && now <= width) svg.append(node("line", { x1: now, x2: now, y1: TOP - 6, y2: height, class: "now" }));
  if (cursor !== null) svg.append(node("line", { x1: x(cursor), x2: x(cursor), y1: TOP - 6, y2: height, class: "axis" }));
  if (mark) svg.append(node("rect", { x: x(mark[0]), y: TOP - 2, width: Math.max(1, x(mark[1]) - x(mark[0])), height: height - TOP, class: "mark" }));
}

// What cancels a reservation: it asks first, and neither a second press of a key nor Escape says yes.
function cancelling(cell, id) {
  const button = (text, label, then) => {
    const made = element("button", text);
    made.setAttribute("aria-label", label);
    made.onclick = then;
    return made;
  };
  const turn = (to) => { asking = to; drawList(); document.querySelector(`tr[data-id="${id}"] button`)?.focus(); };
  if (asking !== id) return cell.append(button("Cancel", `Cancel ${id}`, () => turn(id)));
  const yes = () => { turn(null); ask("POST", `/v1/reservations/${id}/terminate`).catch(tell); };
  cell.className = "asked";
  cell.append(element("span", `Cancel ${id}?`), button("No", `No, keep ${id}`, () => turn(null)), button("Yes", `Yes, cancel ${id}`, yes));
  cell.onkeydown = (event) => { if (event.key === "Escape") turn(null); };
}
function drawList() {
  const rows = [...reservations.values()].sort((a, b) => Date.parse(a.legs[0]?.start) - Date.parse(b.legs[0]?.start)).slice(0, 200).map((known) => {
    const row = element("tr"), { state, trouble } = said(known.id);
    row.dataset.id = known.id;
    row.append(element("td", known.id), element("td", known.ended || known.state, `state-${known.state}`));
    row.append(element("td", trouble.join("; ") || state, trouble.length ? "bad" : "up"));
    row.append(element("td", known.from), element("td", known.to), element("td", rate(most(known.legs))));
    row.append(element("td", when(known.legs[0].start)), element("td", when(known.legs.at(-1).end)), element("td", known.label));
    const cell = element("td");
    if (known.state !== "terminated") cancelling(cell, known.id);
    row.append(cell);
    const names = [...document.querySelectorAll("thead th")].map((head) => head.textContent);
    [...row.children].forEach((cell, at) => { cell.dataset.name = names[at]; });
    return row;
  });
  // A list that is as it was stays, and with it the focus of who goes through it by keys.
  const list = $("list"), made = element("tbody");
  made.replaceChildren(...rows);
  if (made.innerHTML === list.innerHTML) return;
  const at = list.contains(document.activeElement) && document.activeElement.closest("tr");
  const [label, place] = at ? [document.activeElement.getAttribute("aria-label"), at.sectionRowIndex] : [];
  list.replaceChildren(...rows);
  if (!at) return;
  // One that is gone hands it to the one in its place.
  const own = list.querySelector(`tr[data-id="${at.dataset.id}"]`) || rows[Math.min(place, rows.length - 1)];
  (own?.querySelector(`button[aria-label="${label}"]`) || own?.querySelector("button"))?.focus();
}

function local(time) { const at = new Date(time); return new Date(at - at.getTimezoneOffset() * 60e3).toISOString().slice(0, 16); }
function marked() {
  if (!mark) return;
  $("start").value = local(mark[0]);
  $("end").value = local(mark[1]);
  drawLanes();
}
// A slot of whole minutes, as many as a hand can tell apart.
function snap(time) {
  const pixel = shown.hours * HOUR / ($("lanes").viewBox.baseVal.width - LABEL);
  const grid = [1, 5, 15, 60, 240].map((minutes) => minutes * 60e3).find((grid) => grid >= 1.5 * pixel) || 240 * 60e3;
  return Math.round(time / grid) * grid;
}
function timeAt(event) {
  const svg = $("lanes"), box = svg.getBoundingClientRect(), width = svg.viewBox.baseVal.width;
  const x = (event.clientX - box.left) / box.width * width;
  return snap(shown.start + Math.max(0, x - LABEL) / (width - LABEL) * shown.hours * HOUR);
}
function lanesByHand() {
  const svg = $("lanes");
  let from = null;
  svg.onpointerdown = (event) => { from = timeAt(event); svg.setPointerCapture(event.pointerId); };
  svg.onpointermove = (event) => {
    if (from === null) return;
    const to = timeAt(event);
    mark = to === from ? null : [Math.min(from, to), Math.max(from, to)];
    drawLanes();
  };
  svg.onpointerup = () => { from = null; marked(); };
  svg.onpointercancel = () => { from = null; };
  svg.onkeydown = (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const before = cursor ?? snap(Math.max(Date.now(), shown.start));
    cursor = before + step * shown.hours * HOUR / 48;
    if (event.shiftKey) {
      const fixed = mark && (mark[0] === before ? mark[1] : mark[0]) || before;
      mark = [Math.min(fixed, cursor), Math.max(fixed, cursor)];
    } else mark = null;
    marked();
    drawLanes();
  };
}

// The highest rate of legs, of which several may run at once.
function most(legs) {
  const times = legs.map((leg) => ({ start: Date.parse(leg.start), end: Date.parse(leg.end), rate: leg.rate_bps }));
  return Math.max(...times.map(({ start }) => times.reduce((sum, leg) => leg.start <= start && start < leg.end ? sum + leg.rate : sum, 0)));
}
// What legs come to, in a line: neighbours in time are one.
function summed(legs) {
  const times = new Map();
  for (const leg of legs) times.set(leg.start, (times.get(leg.start) || 0) + leg.rate_bps);
  const rates = [...times.values()], [least, most] = [Math.min(...rates), Math.max(...rates)];
  const routes = legs.length - times.size > 0 ? ` over ${Math.ceil(legs.length / times.size)} routes` : "";
  const how = least === most ? rate(most) : `${rate(least)} to ${rate(most)}`;
  const ends = legs.map((leg) => leg.end).sort((a, b) => Date.parse(a) - Date.parse(b));
  return `${how}${routes}, ${when(legs[0].start)} to ${when(ends.at(-1))}`;
}
const KINDS = { later: "Later", slower: "Slower", "several-routes": "Over several routes", longer: "Slower and longer", variable: "At a rate that changes", less: "Less" };

function tell(error) {
  const answer = $("answer");
  answer.replaceChildren(element("p", error.message, "bad"));
  const problem = error.problem;
  if (!problem) return;
  for (const known of problem.obstacles || []) answer.append(element("p", `${known.link} has ${rate(known.free_bps)} free from ${when(known.start)} to ${when(known.end)}`));
  const list = element("ul");
  for (const known of problem.alternatives || []) {
    const button = element("button", `${KINDS[known.kind] || known.kind}: ${summed(known.legs)}`);
    button.onclick = () => book({ problem: "legs", legs: known.legs });
    const item = element("li");
    item.append(button);
    list.append(item);
  }
  if (list.children.length) answer.append(element("p", "What can be had instead:"), list);
}
async function book(wanted) {
  try {
    const known = await ask("POST", "/v1/reservations", { from: $("from").value, to: $("to").value, for: wanted, label: $("label").value }, crypto.randomUUID());
    $("answer").replaceChildren(element("p", `${known.id} is booked: ${known.legs.map((leg) => `${rate(leg.rate_bps)} over ${leg.route.join(", ")}`).join("; ")}`, "up"));
    mark = null;
    await load();
  } catch (error) { tell(error); }
}

// The stream of changes; it goes on where it broke off.
async function follow() {
  let last = (await ask("GET", "/v1/log/last")).seq;
  for (;;) {
    try {
      const reply = await fetch(`/v1/events?after=${last}`, { headers: { Authorization: `Bearer ${token}` } });
      const reader = reply.body.pipeThrough(new TextDecoderStream()).getReader();
      for (let text = "";;) {
        const { value, done } = await reader.read();
        if (done) break;
        text += value;
        const blocks = text.split("\n\n");
        text = blocks.pop();
        const events = blocks.map((block) => /^data: (.*)$/m.exec(block)).filter(Boolean).map((found) => JSON.parse(found[1]));
        if (events.length) { last = events.at(-1).seq; await load(); }
      }
    } catch { /* It is asked again below. */ }
    await new Promise((done) => setTimeout(done, 1000));
  }
}

async function enter() {
  topology = await ask("GET", "/v1/topology");
  sessionStorage.setItem("farline-token", token);
  $("enter").hidden = true;
  document.querySelector("main").hidden = false;
  document.title = `${topology.name}: Farline calendar`;
  for (const select of ["from", "to"]) $(select).replaceChildren(...topology.sites.map((site) => element("option", site.name)));
  $("to").selectedIndex = topology.sites.length - 1;
  shown.start = Math.floor(Date.now() / HOUR) * HOUR;
  mark = [shown.start + HOUR, shown.start + 2 * HOUR];
  await load();
  marked();
  lanesByHand();
  const tick = () => { $("now").textContent = new Date().toLocaleString(); };
  tick();
  setInterval(() => { tick(); load().catch(() => {}); }, 5000);
  follow();
}
$("enter").onsubmit = (event) => {
  event.preventDefault();
  token = $("token").value.trim();
  enter().catch((error) => { $("entered").textContent = error.message; });
};
$("ask").onsubmit = (event) => {
  event.preventDefault();
  book({ problem: "fixed", rate_bps: Math.round(Number($("rate").value) * 1e9), start: new Date($("start").value).toISOString(), end: new Date($("end").value).toISOString() });
};
for (const button of document.querySelectorAll("[data-hours]")) button.onclick = () => {
  shown.hours = Number(button.dataset.hours);
  for (const other of document.querySelectorAll("[data-hours]")) other.setAttribute("aria-pressed", String(other === button));
  load();
};
$("earlier").onclick = () => { shown.start -= shown.hours * HOUR / 2; load(); };
$("later").onclick = () => { shown.start += shown.hours * HOUR / 2; load(); };
window.onresize = () => { if (links) { drawMap(); drawLanes(); } };
if (token) enter().catch(() => { token = ""; sessionStorage.removeItem("farline-token"); });
