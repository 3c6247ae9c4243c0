"use strict";
(() => {
  const root = document.documentElement;
  const main = document.getElementById("main");
  const COLOUR = /^--(series|ramp)-[0-9]$|^--(surface|text|muted|train|select|encrypt|upload|wait|wait-line|server|download|decrypt)$/;
  const FORMATS = {
    share: new Intl.NumberFormat("en", { style: "percent", minimumFractionDigits: 1, maximumFractionDigits: 1 }),
    number: new Intl.NumberFormat("en", { maximumSignificantDigits: 4 }),
    whole: new Intl.NumberFormat("en", { maximumFractionDigits: 0 }),
  };
  let data = JSON.parse(document.getElementById("data").textContent);
  let views = {};
  let turn = 0;

  // --- theme: the system's, unless the reader chose another -------------------------------------------------------
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const remembered = () => { try { return localStorage.getItem("sensecrypt-theme"); } catch { return null; } };
  const remember = (theme) => { try { localStorage.setItem("sensecrypt-theme", theme); } catch { /* private mode */ } };

  function applyTheme() {
    const theme = remembered() || (dark.matches ? "dark" : "light");
    root.dataset.theme = theme;
    const button = document.getElementById("theme");
    button.setAttribute("aria-pressed", String(theme === "dark"));
    button.textContent = theme === "dark" ? "Light theme" : "Dark theme";
  }

  document.getElementById("theme").addEventListener("click", () => {
    remember(root.dataset.theme === "dark" ? "light" : "dark");
    applyTheme();
    drawAll();
  });
  dark.addEventListener("change", () => { applyTheme(); drawAll(); });

  // --- charts ---------------------------------------------------------------------------------------------------
  function colour(name) { return getComputedStyle(root).getPropertyValue(name).trim(); }

  function coloured(part) {
    if (Array.isArray(part)) return part.map(coloured);
    if (part && typeof part === "object") {
      return Object.fromEntries(Object.entries(part).map(([key, value]) => [key, coloured(value)]));
    }
    return typeof part === "string" && COLOUR.test(part) ? colour(part) : part;
  }

  function look() {
    const text = colour("--muted"), line = colour("--line"), font = getComputedStyle(document.body).fontFamily;
    return {
      background: "transparent", font, view: { stroke: null },
      axis: {
        labelColor: text, titleColor: text, gridColor: line, domainColor: line, tickColor: line,
        labelFontSize: 12, titleFontSize: 12, titleFontWeight: 500, titlePadding: 8, labelPadding: 5,
      },
      axisBand: { grid: false },
    };
  }

  function objects(table) {
    const names = table.fields.map((field) => field.name);
    return table.rows.map((row) => Object.fromEntries(row.map((value, place) => [names[place], value])));
  }

  async function draw(figure, mine) {
    const name = figure.dataset.chart, chart = data.charts[name], canvas = figure.querySelector(".canvas");
    const spec = coloured(chart.spec);
    spec.datasets = { [chart.table]: objects(data.tables[chart.table]) };
    const picked = choice(figure);
    if (picked !== undefined) spec.params = [{ name: "chosen", value: picked }];
    const old = views[name];
    canvas.style.minHeight = old ? `${canvas.offsetHeight}px` : "";
    const drawn = await window.vegaEmbed(canvas, spec, {
      mode: "vega-lite", renderer: "svg", actions: false, ast: true, defaultStyle: false, config: look(),
      tooltip: { disableDefaultStyle: true },
    });
    if (old) old.finalize();
    if (mine !== turn) { drawn.finalize(); return; }
    views[name] = drawn;
    canvas.style.minHeight = "";
    figure.dataset.drawn = "yes";
  }

  async function drawAll() {
    const mine = ++turn;
    delete root.dataset.ready;
    for (const figure of document.querySelectorAll("figure.chart")) {
      if (mine !== turn) return;
      try {
        await draw(figure, mine);
      } catch (error) {
        console.error(error);
        figure.querySelector(".canvas").textContent = "This chart could not be drawn; its figures are in the table.";
      }
    }
    if (mine === turn) root.dataset.ready = "yes";
  }

  // --- pickers --------------------------------------------------------------------------------------------------
  function control(figure) { return figure.querySelector(".picker input, .picker select"); }

  function choice(figure) {
    const picker = data.charts[figure.dataset.chart].picker, chosen = control(figure);
    return picker && chosen ? picker.options[Number(chosen.value)][0] : undefined;
  }

  main.addEventListener("input", (event) => {
    const figure = event.target.closest("figure.chart");
    if (!figure || event.target !== control(figure)) return;
    const name = figure.dataset.chart, label = data.charts[name].picker.options[Number(event.target.value)][1];
    const output = figure.querySelector("output");
    if (output) { output.textContent = label; event.target.setAttribute("aria-valuetext", label); }
    if (views[name]) views[name].view.signal("chosen", choice(figure)).runAsync();
    if (figure.querySelector("details").open) fill(figure);
  });

  // --- tables: made when they are opened, of the same figures as the chart -----------------------------------------
  function cell(tag, text, field) {
    const made = document.createElement(tag);
    made.textContent = text;
    if (field.kind !== "text") made.className = "figure";
    return made;
  }

  function written(value, kind) {
    if (value === null) return "";
    return kind in FORMATS && typeof value === "number" ? FORMATS[kind].format(value) : String(value);
  }

  function fill(figure) {
    const chart = data.charts[figure.dataset.chart], table = data.tables[chart.table];
    const made = document.createElement("table"), head = made.createTHead().insertRow(), body = made.createTBody();
    for (const field of table.fields) {
      const title = cell("th", field.title, field);
      title.scope = "col";
      head.append(title);
    }
    const by = chart.picker ? table.fields.findIndex((field) => field.name === chart.picker.field) : -1;
    const picked = choice(figure);
    for (const values of table.rows) {
      if (by >= 0 && values[by] !== picked) continue;
      const row = body.insertRow();
      values.forEach((value, place) => row.append(cell("td", written(value, table.fields[place].kind), table.fields[place])));
    }
    figure.querySelector("details .scroll").replaceChildren(made);
  }

  main.addEventListener("toggle", (event) => {
    const figure = event.target.closest("figure.chart");
    if (figure && event.target.open) fill(figure);
  }, true);

  // --- news, where a server sends them ---------------------------------------------------------------------------
  function kept() {
    const picks = {}, open = [];
    for (const figure of document.querySelectorAll("figure.chart")) {
      const chosen = control(figure), name = figure.dataset.chart;
      // At the last round, stay at the last round; else at the one that was chosen.
      if (chosen && !(chosen.type === "range" && chosen.value === chosen.max)) picks[name] = chosen.value;
      if (figure.querySelector("details").open) open.push(name);
    }
    const settings = document.querySelector("details.settings");
    return { picks, open, settings: Boolean(settings && settings.open) };
  }

  function restore({ picks, open, settings }) {
    for (const figure of document.querySelectorAll("figure.chart")) {
      const name = figure.dataset.chart, chosen = control(figure);
      if (chosen && name in picks && Number(picks[name]) < data.charts[name].picker.options.length) {
        chosen.value = picks[name];
        const label = data.charts[name].picker.options[Number(chosen.value)][1], output = figure.querySelector("output");
        if (output) { output.textContent = label; chosen.setAttribute("aria-valuetext", label); }
      }
      if (open.includes(name)) { figure.querySelector("details").open = true; fill(figure); }
    }
    const details = document.querySelector("details.settings");
    if (details) details.open = settings;
  }

  async function refresh() {
    const answer = await fetch("content.json", { cache: "no-store" });
    if (!answer.ok) return;
    const news = await answer.json();
    const before = kept(), heights = {}, focused = document.activeElement && document.activeElement.id;
    for (const figure of document.querySelectorAll("figure.chart")) {
      heights[figure.dataset.chart] = figure.querySelector(".canvas").offsetHeight;
    }
    for (const view of Object.values(views)) view.finalize();
    views = {};
    turn++;
    data = news.data;
    main.innerHTML = news.html;
    document.title = news.title;
    for (const figure of document.querySelectorAll("figure.chart")) {
      const height = heights[figure.dataset.chart];
      if (height) figure.querySelector(".canvas").style.minHeight = `${height}px`;
    }
    restore(before);
    if (focused && document.getElementById(focused)) document.getElementById(focused).focus({ preventScroll: true });
    await drawAll();
  }

  if (document.body.dataset.live) {
    const status = document.getElementById("live"), source = new EventSource("events");
    let busy = Promise.resolve();
    source.addEventListener("open", () => { status.textContent = "live"; });
    source.addEventListener("error", () => { status.textContent = "connection lost; showing the last state"; });
    source.addEventListener("change", () => { busy = busy.then(refresh).catch((error) => console.error(error)); });
  }

  applyTheme();
  drawAll();
})();
