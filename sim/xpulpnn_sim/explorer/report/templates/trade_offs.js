// Axes begin at zero when the figures are within a factor of about two of it, else a little before the smallest one.
function rangeOf(values) {
  const low = Math.min(...values),
    high = Math.max(...values),
    pad = 0.08 * (high - low || Math.abs(high) || 1);
  return [low < 0.45 * high ? 0 : low - pad, high + pad];
}

// Numbers beside markers: points that coincide share one text; a text that finds no free place is left to hovering.
// Neither markers with their bars nor the line of the front, whose corners are `line`, may be covered.
function placeNumbers(items, line, width, height, ranges) {
  const pixel = ({x, y}) => [
    ((x - ranges[0][0]) / (ranges[0][1] - ranges[0][0])) * width,
    height - ((y - ranges[1][0]) / (ranges[1][1] - ranges[1][0])) * height,
  ];
  const groups = [];
  for (const item of items) {
    const at = pixel(item),
      near = groups.find((group) => Math.hypot(group.at[0] - at[0], group.at[1] - at[1]) < 5);
    if (near) near.items.push(item);
    else groups.push({at, items: [item]});
  }
  const taken = groups.map(({at: [x, y]}) => [x - 5, y - 5, x + 5, y + 5]);
  line.map(pixel).forEach(([x, y], i, corners) => {
    const [before, above] = corners[Math.max(0, i - 1)];
    taken.push([Math.min(x, before), Math.min(y, above), Math.max(x, before), Math.max(y, above)]);
  });
  for (const {across, up, ...item} of items.filter((one) => one.across || one.up)) {
    const [x, y] = pixel(item),
      reach = (ends, name) => ends.map((end) => pixel({...item, [name]: end}));
    if (across) taken.push([reach(across, "x")[0][0], y - 3, reach(across, "x")[1][0], y + 3]);
    if (up) taken.push([x - 3, reach(up, "y")[1][1], x + 3, reach(up, "y")[0][1]]);
  }
  const places = [
    ["top center", 0, -13],
    ["middle right", 1, 0],
    ["middle left", -1, 0],
    ["bottom center", 0, 13],
    ["top right", 1, -11],
    ["top left", -1, -11],
    ["bottom right", 1, 11],
    ["bottom left", -1, 11],
  ];
  for (const group of groups.sort((a, b) => b.items.some((i) => i.front) - a.items.some((i) => i.front))) {
    const numbers = group.items.map((item) => item.number);
    const text = numbers.length > 4 ? `${numbers.slice(0, 3).join(",")},\u2026` : numbers.join(",");
    const half = 3.6 * text.length + 2.5;
    for (const [place, side, down] of places) {
      const x = group.at[0] + side * (half + 7),
        y = group.at[1] + down;
      const box = [x - half, y - 7, x + half, y + 7];
      const free =
        box[0] > 2 &&
        box[2] < width + 14 &&
        box[1] > -20 &&
        box[3] < height &&
        !taken.some((other) => box[0] < other[2] && other[0] < box[2] && box[1] < other[3] && other[1] < box[3]);
      if (free) {
        taken.push(box);
        Object.assign(group.items[0], {text, place});
        break;
      }
    }
  }
}

// Corners of the front: what is at least as good as some point lies on one side of the line.
function corners(front, xs, ys, moreIsRight) {
  return front.flatMap((point, i) => {
    const here = {x: xs[point], y: ys[point]},
      before = front[i - 1];
    if (i === 0) return [here];
    return [moreIsRight ? {x: xs[before], y: here.y} : {x: here.x, y: ys[before]}, here];
  });
}

// Unit of an axis: what its title has in brackets, else the title, without the arrow that tells which way is better.
const unitOf = (title) => title.replace(/ [\u2191\u2193]$/, "").replace(/^.* \[(.*)\]$/, "$1");

function drawTradeOff({id, x: figureX, y: figureY}) {
  const choice = {area: state.flow, delay: state.flow, rate: state.kernel, energy: state.workload};
  const keyX = `${figureX}|${choice[figureX]}`,
    keyY = `${figureY}|${choice[figureY]}`;
  const axisX = data.axes[keyX],
    axisY = data.axes[keyY],
    target = `plot-${id}`;
  if (!document.getElementById(target)) return;
  const items =
    !axisX || !axisY
      ? []
      : data.points
          .map((point, i) => ({i, number: i + 1, x: axisX.values[i], y: axisY.values[i]}))
          .filter((item) => item.x !== null && item.y !== null);
  if (!items.length) return plot(target, null, "No point has both figures with this choice.");
  const front = data.fronts[`${keyX}&${keyY}`];
  const ends = (axis, i) => (axis.low && axis.low[i] < axis.high[i] ? [axis.low[i], axis.high[i]] : null);
  for (const item of items)
    Object.assign(item, {front: front.includes(item.i), across: ends(axisX, item.i), up: ends(axisY, item.i)});
  const colours = data.colours[state.colour] ?? data.points.map(() => "all points");
  const groups = [...new Set(colours)],
    height = 400,
    margin = {l: 62, r: 20, t: 32, b: 50 + (groups.length > 1 ? 28 : 0)};
  const reach = (axis, values) => [
    ...values,
    ...items.flatMap(({i}) => (axis.low ? [axis.low[i], axis.high[i]] : [])),
  ];
  const ranges = [
    rangeOf(reach(axisX, items.map((item) => item.x))),
    rangeOf(reach(axisY, items.map((item) => item.y))),
  ];
  // Error bars from the least to the largest figure of several runs.
  const bars = (axis, members) =>
    axis.low && {
      type: "data",
      symmetric: false,
      array: members.map(({i}) => axis.high[i] - axis.values[i]),
      arrayminus: members.map(({i}) => axis.values[i] - axis.low[i]),
      color: soft,
      thickness: 1,
      width: 4,
    };
  const width = document.getElementById(target).clientWidth;
  const line = corners(front, axisX.values, axisY.values, figureX === "rate");
  placeNumbers(items, line, width - margin.l - margin.r, height - margin.t - margin.b, ranges);
  const shownAs = (name, {title, digits}) => `%{${name}:.${digits}f} ${unitOf(title)}`;
  const traces = [
    {
      type: "scatter",
      mode: "lines",
      x: line.map((corner) => corner.x),
      y: line.map((corner) => corner.y),
      line: {color: soft, width: 1.5, dash: "dot"},
      hoverinfo: "skip",
      showlegend: false,
    },
  ];
  groups.forEach((group, g) => {
    const members = items.filter((item) => colours[item.i] === group);
    if (!members.length) return;
    traces.push({
      type: "scatter",
      mode: "markers+text",
      name: String(group),
      showlegend: groups.length > 1,
      x: members.map((item) => item.x),
      y: members.map((item) => item.y),
      error_x: bars(axisX, members),
      error_y: bars(axisY, members),
      customdata: members.map((item) => item.i),
      text: members.map((item) => item.text ?? ""),
      textposition: members.map((item) => item.place ?? "top center"),
      textfont: {size: 11, color: ink},
      hovertext: members.map((item) => pointName(item.i)),
      hovertemplate: `<b>%{hovertext}</b><br>${shownAs("x", axisX)}<br>${shownAs("y", axisY)}<extra></extra>`,
      marker: {
        color: palette[g % palette.length],
        symbol: symbols[(g + Math.floor(g / palette.length)) % symbols.length],
        size: members.map((item) => (item.front ? 11 : 9)),
        opacity: 0.9,
        line: {
          color: members.map((item) => (item.i === state.point ? ink : "#fff")),
          width: members.map((item) => (item.i === state.point ? 2.5 : 1)),
        },
      },
    });
  });
  const drawn = plot(
    target,
    traces,
    {
      height,
      margin,
      xaxis: axis(axisX.title, ranges[0]),
      yaxis: axis(axisY.title, ranges[1]),
      legend: {orientation: "h", x: 0, y: 0, yref: "container", yanchor: "bottom", font: {size: 12}},
      hovermode: "closest",
    },
    {displayModeBar: "hover"},
  );
  if (!drawn.dataset.clicks) {
    drawn.dataset.clicks = "on";
    drawn.on("plotly_click", (event) => choose("point", event.points[0].customdata));
  }
}
