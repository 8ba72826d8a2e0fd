const tables = JSON.parse(document.getElementById("plots").textContent);
const config = {displaylogo: false, responsive: true, showSendToCloud: false, plotlyServerURL: "", topojsonURL: ""};

function draw() {
  tables.forEach((plots, table) =>
    plots.forEach(({data, layout}, plot) => Plotly.react(`plot-${table}-${plot}`, data, layout, config)),
  );
}

async function unpack(id) {
  const packed = Uint8Array.from(atob(document.getElementById(id).textContent), (letter) => letter.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).text();
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
