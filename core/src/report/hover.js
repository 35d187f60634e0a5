// Reads the values of a line chart out under the pointer. The page is whole without it.
for (const svg of document.querySelectorAll("svg.lines")) {
  const scale = (text) => {
    const [low, high, from, to, unit = ""] = text.split(" ");
    return { unit, value: (px) => +low + ((px - from) / (to - from)) * (high - low) };
  };
  const x = scale(svg.dataset.x), y = scale(svg.dataset.y);
  const lines = [...svg.querySelectorAll("polyline")].map((line) => ({
    name: line.dataset.name,
    points: line.getAttribute("points").split(" ").map((pair) => pair.split(",").map(Number)),
  }));
  const output = svg.parentElement.querySelector("output");
  const cursor = document.createElementNS(svg.namespaceURI, "line");
  cursor.setAttribute("class", "cursor");
  cursor.setAttribute("y1", 26);
  cursor.setAttribute("y2", svg.viewBox.baseVal.height - 40);
  svg.append(cursor);
  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect();
    const at = ((event.clientX - box.left) / box.width) * svg.viewBox.baseVal.width;
    const near = lines
      .map(({ name, points }) => ({ name, point: points.reduce((a, b) => (Math.abs(b[0] - at) < Math.abs(a[0] - at) ? b : a), [1e9, 0]) }))
      .filter(({ point }) => Math.abs(point[0] - at) < 12);
    cursor.setAttribute("x1", at);
    cursor.setAttribute("x2", at);
    cursor.style.visibility = near.length ? "visible" : "hidden";
    output.textContent = near.length
      ? `${x.value(at).toPrecision(3)} ${x.unit}: ` + near.map(({ name, point }) => `${name} ${Math.max(0, y.value(point[1])).toPrecision(3)} ${y.unit}`).join(", ")
      : "";
  });
  svg.addEventListener("pointerleave", () => {
    cursor.style.visibility = "hidden";
    output.textContent = "";
  });
}
