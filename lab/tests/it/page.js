// What a reader does with a profile's page; the outcome is left in the element `tried`.
const seen = (svg) => svg.getBoundingClientRect().width > 0;
const pointer = (svg, type, share) => {
  const box = svg.getBoundingClientRect();
  const at = { clientX: box.left + share * box.width, clientY: box.top + box.height / 2, bubbles: true };
  svg.dispatchEvent(new PointerEvent(type, at));
};
const tried = {};

const surface = [...document.querySelectorAll("svg.surface")].find(seen);
// A pointer that no hand holds cannot be captured.
surface.setPointerCapture = () => {};
const corners = () => surface.querySelector(".floor").getAttribute("points");
const drawn = corners();
surface.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowLeft", bubbles: true }));
tried.keyTurns = corners() !== drawn;
surface.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowRight", bubbles: true }));
const near = (a, b) => a.split(/[ ,]/).every((number, i) => Math.abs(number - b.split(/[ ,]/)[i]) < 0.2);
tried.keyTurnsBack = near(corners(), drawn);
pointer(surface, "pointerdown", 0.4);
pointer(surface, "pointermove", 0.6);
tried.dragTurns = !near(corners(), drawn);
pointer(surface, "pointerup", 0.6);
const let_go = corners();
pointer(surface, "pointermove", 0.9);
tried.letGoStays = corners() === let_go;

const charts = [...document.querySelectorAll("svg.lines")].filter(seen);
const unit = (svg) => svg.dataset.x.split(" ")[4];
const zoom = (svg) => +svg.querySelector("g[transform]").getAttribute("transform").match(/scale\(([\d.]+)/)[1];
const [first, second] = charts.filter((svg) => unit(svg) === "ms");
const output = first.parentElement.querySelector("output");
// The middle one of three paths, on a linear axis and on a logarithmic one.
tried.reads = [first, second].map((svg) => {
  const middle = svg.querySelector("polyline").getAttribute("points").split(" ")[1].split(",")[0];
  pointer(svg, "pointermove", middle / svg.viewBox.baseVal.width);
  return svg.parentElement.querySelector("output").textContent;
});
pointer(first, "pointerdown", 0.3);
pointer(first, "pointerup", 0.6);
tried.dragZooms = zoom(first);
tried.zoomIsLinked = zoom(second);
tried.saysWhere = output.textContent;
first.dispatchEvent(new MouseEvent("dblclick", { bubbles: true }));
tried.doubleClickShowsAll = [zoom(first), zoom(second)];
tried.ticksOfLosses = document.querySelectorAll("line.loss").length;
tried.wide = document.documentElement.scrollWidth - document.documentElement.clientWidth;

const element = document.createElement("script");
element.type = "application/json";
element.id = "tried";
element.textContent = JSON.stringify(tried);
document.body.append(element);
// Whoever has this page in a frame.
if (parent !== window) parent.postMessage(element.textContent, "*");
