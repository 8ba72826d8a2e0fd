async function unpack(id) {
  const coded = Uint8Array.from(atob(document.getElementById(id).textContent), (letter) => letter.charCodeAt(0));
  const stream = new Blob([coded]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).text();
}

// What is chosen; every control with the same data-choice shows and changes the same entry.
const chosen = {};
const texts = {};
for (const control of document.querySelectorAll("[data-choice]")) {
  const {choice} = control.dataset;
  chosen[choice] ??= control.dataset.value ?? control.value;
  texts[choice] ??= {};
  for (const option of control.options ?? [control])
    texts[choice][option.dataset.value ?? option.value] = option.textContent.trim();
}

const config = {
  displaylogo: false,
  displayModeBar: false,
  showSendToCloud: false,
  plotlyServerURL: "",
  topojsonURL: "",
};

function draw({name, choices, variants, nothing, selects}) {
  const target = document.getElementById(`plot-${name}`);
  const figure = variants[choices.map((choice) => chosen[choice]).join("|")];
  target.dataset.nothing = figure ? "" : nothing;
  if (!figure) return;
  target.style.height = `${figure.layout.height}px`;
  const traces = figure.data.map((trace) =>
    selects && trace.customdata
      ? {
          ...trace,
          selectedpoints: trace.customdata.flatMap((value, i) => (String(value) === chosen[selects] ? [i] : [])),
        }
      : trace,
  );
  // a copy: the drawing script keeps what it was given, and writes into it
  const layout = structuredClone({...figure.layout, width: target.clientWidth});
  Plotly.react(target, structuredClone(traces), layout, config);
  if (selects && !target.dataset.clicks) {
    target.dataset.clicks = "on";
    target.on("plotly_click", (event) => choose(selects, String(event.points[0].customdata)));
  }
}

let plots = [];

function refresh(choice) {
  for (const control of document.querySelectorAll("[data-choice]")) {
    const value = chosen[control.dataset.choice];
    if (control.tagName === "SELECT") control.value = value;
    else control.setAttribute("aria-pressed", String(control.value === value));
  }
  for (const place of document.querySelectorAll("[data-shows]"))
    place.textContent = texts[place.dataset.shows]?.[chosen[place.dataset.shows]] ?? chosen[place.dataset.shows] ?? "";
  plots.filter((one) => !choice || one.choices.includes(choice) || one.selects === choice).forEach(draw);
}

function choose(choice, value) {
  chosen[choice] = value;
  refresh(choice);
}

for (const control of document.querySelectorAll("[data-choice]"))
  control.addEventListener(control.tagName === "SELECT" ? "change" : "click", () =>
    choose(control.dataset.choice, control.value),
  );

// Tables sort by a click on a heading: numbers as numbers, what is missing last.
for (const table of document.querySelectorAll("table.sortable")) {
  const headings = [...table.tHead.rows[table.tHead.rows.length - 1].cells],
    body = table.tBodies[0];
  headings.forEach((heading, column) =>
    heading.querySelector("button").addEventListener("click", () => {
      const down = heading.getAttribute("aria-sort") === "ascending",
        numeric = heading.classList.contains("number");
      headings.forEach((other) => other.removeAttribute("aria-sort"));
      heading.setAttribute("aria-sort", down ? "descending" : "ascending");
      const key = (row) => (numeric ? Number(row.cells[column].dataset.value ?? NaN) : row.cells[column].textContent);
      const order = (a, b) => {
        const [one, two] = [key(a), key(b)];
        if (!numeric) return (down ? -1 : 1) * one.localeCompare(two, undefined, {numeric: true});
        if (Number.isNaN(one) || Number.isNaN(two)) return Number.isNaN(one) - Number.isNaN(two);
        return down ? two - one : one - two;
      };
      body.append(...[...body.rows].sort(order));
    }),
  );
}

async function begin() {
  plots = JSON.parse(await unpack("plots"));
  if (plots.length) {
    const script = document.createElement("script");
    script.textContent = await unpack("plotly");
    document.head.append(script);
  }
  refresh();
  // plots have a fixed size once drawn: draw them again for the width of the paper, and of the window
  for (const [event, isPaper] of [["beforeprint", true], ["afterprint", false]])
    addEventListener(event, () => {
      document.body.classList.toggle("paper", isPaper);
      refresh();
    });
  addEventListener("resize", () => refresh());
  document.body.dataset.drawn = "yes";
}

begin().catch((error) => {
  console.error(error);
  for (const target of document.querySelectorAll(".plot"))
    target.textContent = "This browser cannot unpack the plots; the tables are complete.";
});
