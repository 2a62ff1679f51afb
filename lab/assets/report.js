// SPDX-License-Identifier: Apache-2.0
"use strict";
(() => {
  const root = document.documentElement;
  const figures = JSON.parse(document.getElementById("figure-data").textContent);
  const places = [...document.querySelectorAll(".figure")];
  const drawn = new Set();
  const hidden = new WeakMap();

  // Colours are written "@name" or "@name/alpha" and stand in the style sheet of the theme.
  function colour(text) {
    const [name, alpha] = text.slice(1).split("/");
    const hex = getComputedStyle(root).getPropertyValue("--" + name).trim();
    if (!alpha) return hex;
    const full = hex.length === 4 ? "#" + [...hex.slice(1)].map((c) => c + c).join("") : hex;
    const parts = [1, 3, 5].map((at) => parseInt(full.slice(at, at + 2), 16));
    return `rgba(${parts.join(",")},${alpha})`;
  }

  function themed(value) {
    if (typeof value === "string") return value.startsWith("@") ? colour(value) : value;
    if (Array.isArray(value)) return value.map(themed);
    if (value && typeof value === "object") {
      return Object.fromEntries(Object.entries(value).map(([k, v]) => [k, themed(v)]));
    }
    return value;
  }

  function layoutOf(place, source) {
    const layout = themed(source.layout);
    const y = layout.yaxis;
    if (y.shortticktext) {
      if (place.clientWidth < 520) y.ticktext = y.shortticktext;
      delete y.shortticktext;
    }
    if (place.dataset.range && source[place.dataset.range]) {
      layout.xaxis.range = source[place.dataset.range].slice();
    }
    const font = getComputedStyle(document.body).fontFamily;
    const tip = { bgcolor: colour("@card"), bordercolor: colour("@line"), align: "left" };
    tip.font = { family: font, size: 13, color: colour("@ink") };
    return { ...layout, height: source.height, width: place.clientWidth, font: { family: font, color: colour("@ink") },
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", hoverlabel: tip };
  }

  function draw(place) {
    const source = figures[place.dataset.figure];
    const off = hidden.get(place.closest(".linked")) || new Set();
    const data = themed(source.data).map((t) => ({ ...t, visible: !off.has(t.meta) }));
    Plotly.react(place, data, layoutOf(place, source),
      { displayModeBar: false, doubleClick: "reset" });
    drawn.add(place);
  }
  const redraw = () => drawn.forEach(draw);

  for (const place of places) place.style.minHeight = figures[place.dataset.figure].height + "px";
  // One chart a task, top to bottom: the page can be read and scrolled while the rest follows.
  (function next(at) {
    if (at === places.length) return;
    if (!drawn.has(places[at])) draw(places[at]);
    setTimeout(next, 0, at + 1);
  })(0);

  // A chart follows its own place, not the window: a grid can change widths without a resize.
  const widths = new WeakMap();
  const sizes = new ResizeObserver((entries) => {
    for (const { target, contentRect } of entries) {
      const before = widths.get(target);
      widths.set(target, contentRect.width);
      if (drawn.has(target) && before !== contentRect.width && contentRect.width > 0) draw(target);
    }
  });
  places.forEach((place) => sizes.observe(place));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  document.getElementById("theme").addEventListener("click", () => {
    const system = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
    const theme = (root.dataset.theme || system) === "dark" ? "light" : "dark";
    root.dataset.theme = theme;
    try { localStorage.setItem("spolia-theme", theme); } catch { /* private mode */ }
    redraw();
  });

  for (const chip of document.querySelectorAll(".chip")) {
    chip.addEventListener("click", () => {
      const card = chip.closest(".linked");
      const off = hidden.get(card) || new Set();
      const show = off.has(chip.dataset.series);
      off[show ? "delete" : "add"](chip.dataset.series);
      hidden.set(card, off);
      chip.setAttribute("aria-pressed", show);
      card.querySelectorAll(".figure").forEach((place) => drawn.has(place) && draw(place));
    });
  }

  for (const button of document.querySelectorAll(".switch button")) {
    button.addEventListener("click", () => {
      const card = button.closest(".timeline");
      const place = card.querySelector(".figure");
      place.dataset.range = button.dataset.range;
      for (const other of button.parentNode.children) other.setAttribute("aria-pressed", other === button);
      draw(place);
    });
  }

  const links = new Map([...document.querySelectorAll("nav a[href^='#']")].map((a) => [a.hash.slice(1), a]));
  const spy = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (entry.isIntersecting) links.forEach((a, id) => a.classList.toggle("here", id === entry.target.id));
    }
  }, { rootMargin: "-20% 0px -70% 0px" });
  document.querySelectorAll("section").forEach((section) => spy.observe(section));

  const table = document.getElementById("figures");
  const body = table.tBodies[0];
  const value = (row, at) => {
    const text = row.cells[at].dataset.sort;
    return text === "" ? null : isNaN(text) ? text : Number(text);
  };
  function order(a, b) {
    if (a === null || b === null) return (a === null) - (b === null);
    return typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b));
  }
  table.querySelectorAll("th button").forEach((button, at) => button.addEventListener("click", () => {
    const head = button.parentNode;
    const up = head.getAttribute("aria-sort") !== "ascending";
    table.querySelectorAll("th").forEach((th) => th.setAttribute("aria-sort", "none"));
    head.setAttribute("aria-sort", up ? "ascending" : "descending");
    const rows = [...body.rows].sort((a, b) => {
      const [x, y] = [value(a, at), value(b, at)];
      return x === null || y === null || up ? order(x, y) : order(y, x);
    });
    body.append(...rows);
  }));

  document.getElementById("filter").addEventListener("input", (event) => {
    const words = event.target.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const row of body.rows) {
      const cells = [...row.cells].slice(0, 10).map((c) => c.textContent.toLowerCase());
      row.hidden = !words.every((word) => cells.some((c) => /^\d+$/.test(word) ? c === word : c.includes(word)));
    }
  });

  document.getElementById("csv").addEventListener("click", () => {
    const quote = (text) => `"${String(text).replaceAll('"', '""')}"`;
    const heads = [...table.querySelectorAll("th button")].map((b) => b.textContent);
    const lines = [...body.rows].filter((row) => !row.hidden)
      .map((row) => heads.map((_, at) => quote(row.cells[at].dataset.sort)).join(","));
    const blob = new Blob([[heads.map(quote).join(","), ...lines].join("\n")], { type: "text/csv" });
    const link = Object.assign(document.createElement("a"),
      { href: URL.createObjectURL(blob), download: "spolia.csv" });
    link.click();
    URL.revokeObjectURL(link.href);
  });

  body.addEventListener("click", async (event) => {
    const button = event.target.closest(".copy");
    if (!button) return;
    try {
      await navigator.clipboard.writeText(button.dataset.command);
      button.textContent = "copied";
    } catch {
      prompt("Command", button.dataset.command);
    }
  });
})();
