// Reads the values of a line chart out under the pointer; a drag zooms every chart with the same unit, a double click shows
// all again. The page is whole without it.
const charts = [...document.querySelectorAll("svg.lines")].map((svg, index) => {
  const scale = (axis) => {
    const [numbers, unit] = [svg.dataset[axis].split(" ").slice(0, 4).map(Number), svg.dataset[axis].split(" ").slice(4).join(" ")];
    // On a logarithmic axis equal distances are equal factors.
    const [to_scale, back] = (svg.dataset.log ?? "").includes(axis) ? [Math.log, Math.exp] : [Number, Number];
    const [low, high, from, to] = [to_scale(numbers[0]), to_scale(numbers[1]), numbers[2], numbers[3]];
    return {
      unit, from, to,
      value: (px) => back(low + ((px - from) / (to - from)) * (high - low)),
      place: (v) => from + ((to_scale(v) - low) / (high - low)) * (to - from),
    };
  };
  const x = scale("x"), y = scale("y");
  const make = (name, attributes) => {
    const element = document.createElementNS(svg.namespaceURI, name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    return element;
  };
  const lines = [...svg.querySelectorAll("polyline")].map((line) => ({
    name: line.dataset.name,
    points: line.getAttribute("points").split(" ").map((pair) => pair.split(",").map(Number)),
  }));
  const [top, bottom] = [26, svg.viewBox.baseVal.height - 40];
  const cursor = make("line", { class: "cursor", y1: top, y2: bottom });
  const clip = make("clipPath", { id: `plot${index}` });
  clip.append(make("rect", { x: x.from, y: top, width: x.to - x.from, height: bottom - top }));
  const window = make("g", { "clip-path": `url(#plot${index})` });
  const drawn = make("g", {});
  window.append(drawn);
  drawn.append(...svg.querySelectorAll("polyline, polygon.band, rect.span, line.event, line.loss"));
  svg.insertBefore(window, svg.querySelector(".name"));
  svg.append(clip, cursor);
  const whole = svg.querySelectorAll(".name, .tick");
  const output = svg.parentElement.querySelector("output");
  const chart = { svg, x, y, lines, cursor, output, move: 0, stretch: 1 };
  chart.show = (low, high) => {
    const [from, to] = low === null ? [x.from, x.to] : [x.place(low), x.place(high)];
    chart.stretch = (x.to - x.from) / (to - from);
    chart.move = x.from - from * chart.stretch;
    drawn.setAttribute("transform", `translate(${chart.move} 0) scale(${chart.stretch} 1)`);
    // Names and ticks of the time axis belong to the whole.
    for (const text of whole) if (text.classList.contains("name") || +text.getAttribute("y") > bottom) text.style.visibility = low === null ? "" : "hidden";
    output.textContent = low === null ? "" : `${low.toPrecision(3)} to ${high.toPrecision(3)} ${x.unit}; a double click shows all`;
  };
  return chart;
});
for (const chart of charts) {
  const { svg, x, y, lines, cursor, output } = chart;
  const within = (event) => {
    const box = svg.getBoundingClientRect();
    return ((event.clientX - box.left) / box.width) * svg.viewBox.baseVal.width;
  };
  const linked = (low, high) => charts.filter((one) => one.x.unit === x.unit).forEach((one) => one.show(low, high));
  const value = (px) => x.value((px - chart.move) / chart.stretch);
  let began = null;
  svg.addEventListener("pointermove", (event) => {
    const seen = within(event), at = (seen - chart.move) / chart.stretch;
    const near = lines
      .map(({ name, points }) => ({ name, point: points.reduce((a, b) => (Math.abs(b[0] - at) < Math.abs(a[0] - at) ? b : a), [1e9, 0]) }))
      .filter(({ point }) => Math.abs(point[0] - at) < 12);
    cursor.setAttribute("x1", seen);
    cursor.setAttribute("x2", seen);
    cursor.style.visibility = near.length ? "visible" : "hidden";
    output.textContent = near.length
      ? `${value(seen).toPrecision(3)} ${x.unit}: ` + near.map(({ name, point }) => `${name} ${Math.max(0, y.value(point[1])).toPrecision(3)} ${y.unit}`).join(", ")
      : "";
  });
  svg.addEventListener("pointerdown", (event) => { began = within(event); });
  svg.addEventListener("pointerup", (event) => {
    const ended = within(event);
    if (began !== null && Math.abs(ended - began) > 12) {
      const inside = (px) => value(Math.min(Math.max(px, x.from), x.to));
      linked(inside(Math.min(began, ended)), inside(Math.max(began, ended)));
    }
    began = null;
  });
  svg.addEventListener("dblclick", () => linked(null, null));
  svg.addEventListener("pointerleave", () => {
    began = null;
    cursor.style.visibility = "hidden";
    output.textContent = "";
  });
}
