const data = JSON.parse(document.getElementById("report-data").textContent);
const palette = [
  "#0072b2",
  "#d55e00",
  "#009e73",
  "#cc79a7",
  "#56b4e9",
  "#e69f00",
  "#5b5b5b",
  "#8c6bb1",
  "#a6761d",
  "#1b7837",
];
const symbols = [
  "circle",
  "square",
  "diamond",
  "triangle-up",
  "cross",
  "star",
  "triangle-down",
  "pentagon",
  "hexagon",
  "x",
];
const ink = "#1c2430",
  soft = "#55606e",
  grid = "#e6e9ee";
const font = {
  family: "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif",
  size: 13,
  color: ink,
};
const config = {
  displaylogo: false,
  showSendToCloud: false,
  plotlyServerURL: "",
  topojsonURL: "",
  modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"],
  displayModeBar: false,
};

// What is shown; every control with the same data-state shows and changes the same entry.
const firstWhole = Math.max(
  0,
  data.points.findIndex((point) => !point.failed),
);
const state = {
  point: firstWhole,
  flow: data.flows[0],
  kernel: data.kernels[0],
  workload: data.workloads[0],
  colour: Object.keys(data.colours)[0],
};
const pointName = (i) => `${i + 1} ${data.points[i].label}`;
const shown = {point: () => pointName(state.point), flow: () => state.flow, workload: () => state.workload};

function plot(id, traces, layout, options) {
  const target = document.getElementById(id);
  if (!target) return null;
  target.dataset.nothing = traces ? "" : layout;
  if (!traces) return null;
  target.style.height = `${layout.height}px`;
  Plotly.react(
    target,
    traces,
    {
      font,
      paper_bgcolor: "#fff",
      plot_bgcolor: "#fff",
      hoverlabel: {bgcolor: "#fff", bordercolor: soft, font: {...font, size: 12}, align: "left"},
      width: target.clientWidth,
      ...layout,
    },
    {...config, ...options},
  );
  return target;
}

function drawScaling() {
  if (data.scaling) plot("plot-scaling", data.scaling.data, data.scaling.layout);
}

function axis(title, range) {
  return {
    title: {text: title, standoff: 8},
    gridcolor: grid,
    zeroline: false,
    linecolor: "#aab4c0",
    showline: true,
    ticks: "outside",
    tickcolor: "#aab4c0",
    range,
  };
}

// Instances directly below the top keep their colour in every plot.
const partNames = [...new Set(Object.values(data.blocks).flatMap((parts) => parts.map(([name]) => name)))];
const partColour = (name) =>
  name === "(top itself)"
    ? "#b8c0ca"
    : palette[partNames.filter((n) => n !== "(top itself)").indexOf(data.partOf[name] ?? name) % palette.length];

function paler(colour, steps) {
  const keep = Math.max(0.2, 0.62 * 0.8 ** steps);
  return (
    "#" +
    [1, 3, 5]
      .map((i) =>
        Math.round(255 - keep * (255 - parseInt(colour.slice(i, i + 2), 16)))
          .toString(16)
          .padStart(2, "0"),
      )
      .join("")
  );
}

// Whether a figure of a detailed view is more than half a percent off the one in the tables.
const differs = (detailed, figure) => figure !== null && Math.abs(detailed - figure) > 0.005 * Math.abs(figure);

// Which of several runs a view is of.
const ofRuns = ({run, runs}) => (runs > 1 ? ` (run ${run} of ${runs})` : "");

function drawArea() {
  const area = data.areas[`${state.point}|${state.flow}`];
  const note = document.getElementById("area-note");
  if (note) note.textContent = "";
  if (!area) return plot("plot-area", null, "This flow has no hierarchy of this point.");
  const ids = [],
    labels = [],
    parents = [],
    values = [],
    colours = [],
    details = [],
    texts = [];
  const whole = area.rows[0][4];
  const percent = (share) => `${(100 * share).toFixed(1)} %`;
  const sum = differs(whole, area.figure)
    ? `The instances add up to ${whole.toFixed(2)} kGE; the tables show ${area.figure.toFixed(2)} kGE.`
    : `The instances add up to the ${area.figure.toFixed(2)} kGE of the tables${ofRuns(area)}.`;
  const {function: told, readers, shared} = area.origins;
  note.textContent =
    told === undefined
      ? sum
      : `${sum} Instances told by equal function for ${percent(told)} of the area, by what reads a gate for ` +
        `${percent(readers)}; ${percent(shared)} is shared by several.`;
  const hasParts = new Set(area.rows.map((row) => row[1])),
    lineage = [];
  const add = (id, label, parent, value, colour, size, module, cells, inner) => {
    const shownSize = `${size.toFixed(2)} kGE`,
      share = `${((100 * size) / (whole || 1)).toFixed(1)} %`;
    ids.push(id);
    labels.push(inner ? `${label}  ${shownSize}, ${share}` : label);
    parents.push(parent);
    values.push(value);
    colours.push(colour);
    texts.push(`${label}<br>${shownSize}<br>${share}`);
    details.push([shownSize, share, module, cells, label]);
  };
  area.rows.forEach(([name, above, module, own, total, cells], i) => {
    const [part, depth] = above < 0 ? ["", 0] : above === 0 ? [name, 1] : [lineage[above][0], lineage[above][1] + 1];
    lineage.push([part, depth]);
    const colour = depth ? paler(partColour(part), depth - 1) : "#eef1f5";
    const inner = hasParts.has(i);
    add(String(i), name, above < 0 ? "" : String(above), inner ? 0 : own, colour, total, module, cells, inner);
    if (inner && own > 0)
      add(
        `${i}.own`,
        "(own cells)",
        String(i),
        own,
        depth ? paler(partColour(part), depth + 1) : "#dfe4ea",
        own,
        module,
        cells,
        false,
      );
  });
  plot(
    "plot-area",
    [
      {
        type: "treemap",
        ids,
        labels,
        parents,
        values,
        branchvalues: "remainder",
        customdata: details,
        marker: {colors: colours, line: {color: "#fff", width: 1}, pad: {t: 22, l: 3, r: 3, b: 3}},
        tiling: {packing: "squarify"},
        text: texts,
        textinfo: "text",
        textfont: {size: 12, color: ink},
        pathbar: {visible: true, textfont: {size: 12, color: ink}},
        hovertemplate:
          "<b>%{customdata[4]}</b><br>%{customdata[0]}, %{customdata[1]}<br>" +
          "module %{customdata[2]}<br>%{customdata[3]} own cells<extra></extra>",
      },
    ],
    {height: 520, margin: {l: 0, r: 0, t: 28, b: 4}, uniformtext: {mode: "hide", minsize: 9}},
  );
}

const shortened = (text, length = 34) => (text.length > length ? `${text.slice(0, length - 1)}\u2026` : text);

function stacked(target, names, columns, unit, digits) {
  const width = document.getElementById(target)?.clientWidth;
  const narrow = width < 600;
  const ticks = names.map((name) => shortened(name, narrow ? 18 : Math.max(30, width / 18)));
  plot(
    target,
    columns.map(([name, values, colour]) => ({
      type: "bar",
      orientation: "h",
      name,
      x: values,
      y: names.map((_, i) => i),
      hovertext: names,
      marker: {color: colour, line: {color: "#fff", width: 0.5}},
      hovertemplate: `<b>%{hovertext}</b><br>${name}: %{x:.${digits}f} ${unit}<extra></extra>`,
    })),
    {
      height: 90 + 20 * names.length + (narrow ? 50 : 0),
      barmode: "stack",
      bargap: 0.25,
      margin: {l: 10, r: 16, t: 6, b: 46},
      xaxis: {...axis(unit), rangemode: "tozero"},
      yaxis: {
        tickvals: names.map((_, i) => i),
        ticktext: ticks,
        autorange: "reversed",
        automargin: true,
        tickfont: {size: 12},
        ticks: "",
      },
      legend: {orientation: "h", x: 0, y: 1, yanchor: "bottom", traceorder: "normal", font: {size: 12}},
    },
  );
}

function drawBlocks() {
  const parts = data.blocks[state.flow];
  if (!parts) return plot("plot-blocks", null, "This flow has no hierarchy.");
  const present = data.points.map((_, i) => i).filter((i) => parts.some(([, values]) => values[i] > 0));
  stacked(
    "plot-blocks",
    present.map(pointName),
    parts.map(([name, values]) => [name, present.map((i) => values[i]), partColour(name)]),
    "kGE",
    2,
  );
}

const energyColours = [
  ["switching", "#0072b2"],
  ["internal", "#8cc9ef"],
  ["clock", "#e69f00"],
  ["leakage", "#5b5b5b"],
];

function energyColumns(rows) {
  return energyColours.map(([name, colour], part) => [name, rows.map((row) => row[part]), colour]);
}

function drawEnergy() {
  const parts = data.energyParts[state.workload] ?? [];
  const present = data.points.map((_, i) => i).filter((i) => parts[i]);
  if (present.length)
    stacked("plot-energy-points", present.map(pointName), energyColumns(present.map((i) => parts[i])), "pJ/cycle", 2);
  const rows = data.energies[`${state.point}|${state.workload}`];
  if (!rows) return plot("plot-energy", null, "This workload was not estimated on this point.");
  stacked(
    "plot-energy",
    rows.map((row) => row[0]),
    energyColumns(rows.map((row) => row.slice(1))),
    "pJ/cycle",
    3,
  );
}

function cell(kind, text) {
  const element = document.createElement("td");
  element.className = kind;
  element.textContent = text;
  return element;
}

function drawPath() {
  const body = document.querySelector("#path-steps tbody");
  if (!body) return;
  const path = data.paths[`${state.point}|${state.flow}`],
    summary = document.getElementById("path-summary");
  body.closest(".wide").hidden = !path?.steps.length;
  if (!path) {
    summary.textContent = "This flow has no path of this point.";
    return;
  }
  const others = Object.entries(path.others).map(([tool, delay]) => `${tool}: ${delay.toFixed(0)} ps`);
  const other = [
    path.figure === null ? "" : ` The tables show ${path.figure.toFixed(0)} ps, of the same netlist.`,
    others.length ? ` Longest path of it by other tools: ${others.join(", ")}.` : "",
  ].join("");
  const cells = path.steps.length ? ` through ${path.steps.length} cells` : "";
  summary.textContent = [
    `${path.start} \u2192 ${path.end}: ${path.delay.toFixed(0)} ps${cells};`,
    `${path.tool}, ${path.netlist} netlist${ofRuns(path)}.${other}`,
  ].join(" ");
  const longest = Math.max(...path.steps.map((step) => step[2]));
  body.replaceChildren(
    ...path.steps.map(([net, type, delay, arrival], i) => {
      const row = document.createElement("tr"),
        bar = cell("bar", ""),
        length = document.createElement("div");
      length.style.width = `${(100 * delay) / (longest || 1)}%`;
      bar.append(length);
      row.append(
        cell("number", i + 1),
        cell("text", net),
        cell("text", type),
        cell("number", delay.toFixed(0)),
        bar,
        cell("number", arrival.toFixed(0)),
      );
      return row;
    }),
  );
}
