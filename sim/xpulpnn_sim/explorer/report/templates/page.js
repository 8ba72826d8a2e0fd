const drawings = {
  point: [drawArea, drawPath, drawEnergy],
  flow: [drawScaling, drawBlocks, drawArea, drawPath],
  kernel: [],
  workload: [drawEnergy],
  colour: [],
};

function refresh(names) {
  for (const control of document.querySelectorAll("[data-state]")) {
    const value = String(state[control.dataset.state]);
    if (control.tagName === "SELECT") control.value = value;
    else control.setAttribute("aria-pressed", String(control.value === value));
  }
  for (const place of document.querySelectorAll("[data-show]")) place.textContent = shown[place.dataset.show]();
  data.tradeOffs.forEach(drawTradeOff);
  new Set(names.flatMap((name) => drawings[name])).forEach((draw) => draw());
}

function choose(name, value) {
  state[name] = name === "point" ? Number(value) : value;
  refresh([name]);
}

for (const control of document.querySelectorAll("select[data-state]"))
  control.addEventListener("change", () => choose(control.dataset.state, control.value));
for (const control of document.querySelectorAll("button[data-state]"))
  control.addEventListener("click", () => choose(control.dataset.state, control.value));

document.querySelector("nav").append(
  ...[...document.querySelectorAll("section[data-title]")].map((section) => {
    const link = document.createElement("a");
    link.href = `#${section.id}`;
    link.textContent = section.dataset.title;
    return link;
  }),
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

unpack("plotly")
  .then((text) => {
    const script = document.createElement("script");
    script.textContent = text;
    document.head.append(script);
    refresh(Object.keys(drawings));
    // plots have a fixed size once drawn: draw them again for the width of the paper, and of the window
    addEventListener("beforeprint", () => {
      document.body.classList.add("paper");
      refresh(Object.keys(drawings));
    });
    addEventListener("afterprint", () => {
      document.body.classList.remove("paper");
      refresh(Object.keys(drawings));
    });
    let width = innerWidth;
    addEventListener("resize", () => {
      if (innerWidth !== width) refresh(Object.keys(drawings));
      width = innerWidth;
    });
    document.body.dataset.drawn = "yes";
  })
  .catch((error) => {
    console.error(error);
    for (const target of document.querySelectorAll(".plot"))
      target.textContent = "This browser cannot unpack the plots; the tables are complete.";
  });
