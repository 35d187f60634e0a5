// Turns a surface under the pointer or with the arrow keys; the projection is that of surface.rs.
for (const svg of document.querySelectorAll("svg.surface")) {
  const tilt = +svg.dataset.tilt;
  const { width, height } = svg.viewBox.baseVal;
  const parts = [...svg.querySelectorAll("[data-at]")].map((element) => ({
    element,
    points: element.dataset.at.split(";").map((point) => point.split(" ").map(Number)),
  }));
  const floor = parts.find(({ element }) => element.classList.contains("floor"));
  // The scales are read off the floor as it was drawn.
  const drawn = floor.element.getAttribute("points").split(" ").map((pair) => pair.split(",").map(Number));
  let turned = +svg.dataset.turned;
  const wide = (drawn[1][0] - drawn[0][0]) / Math.cos(turned);
  const centre = [(drawn[0][0] + drawn[2][0]) / 2, (drawn[0][1] + drawn[2][1]) / 2];
  const high = height * 0.3;
  const depth = ([u, v]) => (u - 0.5) * Math.sin(turned) + (v - 0.5) * Math.cos(turned);
  const project = (point) => [
    centre[0] + ((point[0] - 0.5) * Math.cos(turned) - (point[1] - 0.5) * Math.sin(turned)) * wide,
    centre[1] + depth(point) * wide * tilt - point[2] * high,
  ];
  const draw = () => {
    for (const { element, points } of parts) {
      const at = points.map(project);
      if (element.tagName === "polygon") {
        element.setAttribute("points", at.map(([x, y]) => `${x.toFixed(1)},${y.toFixed(1)}`).join(" "));
      } else {
        const half = element.getComputedTextLength() / 2 + 2;
        element.setAttribute("x", Math.min(Math.max(at[0][0], half), width - half).toFixed(1));
        element.setAttribute("y", Math.min(at[0][1], height - 4).toFixed(1));
      }
    }
    const faces = parts.filter(({ element }) => element.classList.contains("face"));
    const far = ({ points }) => points.reduce((sum, point) => sum + depth(point), 0);
    for (const { element } of faces.sort((a, b) => far(a) - far(b))) svg.append(element);
    for (const { element } of parts) if (element.tagName === "text") svg.append(element);
  };
  let held = null;
  svg.addEventListener("pointerdown", (event) => { held = event.clientX; svg.setPointerCapture(event.pointerId); });
  svg.addEventListener("pointermove", (event) => {
    if (held === null) return;
    turned += (held - event.clientX) / 150;
    held = event.clientX;
    draw();
  });
  for (const end of ["pointerup", "pointercancel"]) svg.addEventListener(end, () => { held = null; });
  svg.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: 0.1, ArrowRight: -0.1 }[event.key];
    if (step) { turned += step; draw(); event.preventDefault(); }
  });
}
