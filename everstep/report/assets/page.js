"use strict";
// Draws the two curves with uPlot from the page's own JSON. Everything else of the page is HTML.
(() => {
  const curve = JSON.parse(document.getElementById("curve").textContent);
  const charts = [];

  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const short = (value) => {
    if (value === null || value === undefined) return "–";
    for (const [size, unit] of [[1e12, " T"], [1e9, " B"], [1e6, " M"], [1e3, " k"]]) {
      if (Math.abs(value) >= size) return +(value / size).toFixed(2) + unit;
    }
    return String(+value.toPrecision(5));
  };

  // One x for both series: what was lost and done again is drawn beside how the run went.
  const merged = (field) => {
    const xs = new Map();
    const put = (points, column) => {
      for (const p of points) {
        if (!xs.has(p.x)) xs.set(p.x, [p.x, null, null]);
        xs.get(p.x)[column] = p[field];
      }
    };
    put(curve.points, 1);
    curve.again.forEach((stretch) => put(stretch, 2));
    const inside = (x) => curve.again.some((s) => s[0].x <= x && x <= s[s.length - 1].x);
    const rows = [...xs.values()].sort((a, b) => a[0] - b[0]);
    // uPlot joins over undefined and stops at null: a point that only the other series has is no
    // gap, but between two stretches there is one.
    return [
      rows.map((row) => row[0]),
      rows.map((row) => row[1] ?? undefined),
      rows.map((row) => row[2] ?? (inside(row[0]) ? undefined : null)),
    ];
  };

  const resumes = (plot) => {
    const { ctx, bbox } = plot;
    ctx.save();
    ctx.strokeStyle = colour("--restart");
    ctx.setLineDash([4 * devicePixelRatio, 4 * devicePixelRatio]);
    ctx.lineWidth = devicePixelRatio;
    for (const { x } of curve.resumes) {
      const at = Math.round(plot.valToPos(x, "x", true));
      if (at < bbox.left || at > bbox.left + bbox.width) continue;
      ctx.beginPath();
      ctx.moveTo(at, bbox.top);
      ctx.lineTo(at, bbox.top + bbox.height);
      ctx.stroke();
    }
    ctx.restore();
  };

  const axis = (label, size) => ({
    label, size, labelSize: 20, stroke: () => colour("--quiet"),
    grid: { stroke: () => colour("--line"), width: 1 },
    ticks: { stroke: () => colour("--line"), width: 1 },
    values: (_, ticks) => ticks.map(short), space: 60,
  });

  const draw = (place, field, label, ink) => {
    const series = (name, stroke, width) => ({
      label: name, stroke: () => colour(stroke), width,
      value: (_, value) => short(value), points: { show: curve.points.length < 3 },
    });
    const plot = new uPlot({
      width: place.clientWidth, height: 240, scales: { x: { time: false } },
      legend: { live: true }, cursor: { drag: { x: true, y: false } },
      series: [
        { label: curve.unit, value: (_, value) => short(value) },
        series(label, ink, 2),
        series("lost, done again", "--recomputed", 1),
      ],
      axes: [axis(curve.unit, 34), axis(label, 56)],
      hooks: { draw: [resumes] },
    }, merged(field), place);
    place.plot = plot;
    charts.push([place, plot]);
  };

  const places = { loss: ["loss", "loss", "--useful"], rate: ["tokens_per_s", "tokens/s", "--checkpoint"] };
  for (const place of document.querySelectorAll("[data-chart]")) {
    draw(place, ...places[place.dataset.chart]);
  }

  const again = () => charts.forEach(([place, plot]) => {
    plot.setSize({ width: place.clientWidth, height: 240 });
    plot.redraw(false, true);
  });
  const closed = [...document.querySelectorAll("details:not([open])")];
  const unfold = (open) => closed.forEach((details) => { details.open = open; });
  addEventListener("resize", again);
  addEventListener("beforeprint", () => { unfold(true); again(); });
  addEventListener("afterprint", () => { unfold(false); again(); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
})();
