const tables = JSON.parse(document.getElementById("plots").textContent);
const config = {displaylogo: false, responsive: true, showSendToCloud: false, plotlyServerURL: "", topojsonURL: ""};

function draw() {
  tables.forEach((plots, table) =>
    plots.forEach(({data, layout}, plot) => Plotly.react(`plot-${table}-${plot}`, data, layout, config)),
  );
}

unpack("plotly")
  .then((text) => {
    const script = document.createElement("script");
    script.textContent = text;
    document.head.append(script);
    draw();
    document.body.dataset.drawn = "yes";
  })
  .catch((error) => {
    console.error(error);
    for (const target of document.querySelectorAll(".plot"))
      target.textContent = "This browser cannot unpack the plots; the tables are complete.";
  });
