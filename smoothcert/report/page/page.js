"use strict";
// Sorts tables, shows the values at the pointer or the slider, switches runs on and off, and filters the images.
const startPage = () => {
  document.documentElement.classList.add("scripted");
  const data = JSON.parse(document.getElementById("data").textContent);
  const one = (selector, root = document) => root.querySelector(selector);
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const make = (tag, text, attributes = {}) => {
    const element = document.createElement(tag);
    if (text !== undefined) element.textContent = text;
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    return element;
  };
  const draw = (tag, attributes) => {
    const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    return element;
  };
  const shown = (value) => Number(value.toFixed(1)) === value ? value.toFixed(1) : String(value);  // 0.04, not 0.0
  const percent = (value) => value === null ? "\u2013" : shown(value) + "\u00a0%";  // null: not known
  const hidden = new Set();  // places of runs that are switched off
  const refresh = [];        // what to draw again after a switch

  const explore = (id) => {
    const reading = data.readings[id];
    const root = document.getElementById(`${id}-explorer`);
    const chart = one("svg.smoothcert-chart", root);
    const slider = one("input[type=range]", root);
    const tip = one(".tip", root);
    const { left, right, top, bottom, xStart, xTop, yTop } = Object.fromEntries(
      Object.entries(chart.dataset).map(([key, value]) => [key, Number(value)]));
    const px = (x) => left + (right - left) * (x - xStart) / (xTop - xStart);
    const py = (value) => bottom - (bottom - top) * value / 100 / yTop;
    const cursor = draw("path", { style: "stroke:var(--soft)", "stroke-dasharray": "3 3" });
    chart.append(cursor);
    const rows = reading.runs.map((run) => one(`tr[data-run="${run}"]`, root));
    const dots = reading.runs.map((run) => {
      const dot = draw("circle", { r: 4, style: `fill:var(--run-${data.colours[run]})` });
      one(`.run[data-run="${run}"]`, chart).append(dot);
      return dot;
    });
    let at = Number(slider.value);

    const show = (index) => {
      at = index;
      const x = reading.x[index];
      slider.value = index;
      slider.setAttribute("aria-valuetext", reading.shown[index]);
      one("output", root).value = reading.shown[index];
      cursor.setAttribute("d", `M${px(x)} ${top}V${bottom}`);
      const ranked = (i) => data.contenders.includes(reading.runs[i]) && !hidden.has(reading.runs[i]);
      const best = Math.max(...reading.values.filter((v, i) => v[index] !== null && ranked(i)).map((v) => v[index]));
      rows.forEach((row, i) => {
        const value = reading.values[i][index];
        const gap = value - best;
        one(".value", row).textContent = percent(value);
        const cell = one(".gap", row);  // there is none where the runs cannot be compared
        if (cell) cell.textContent =
          value === null || !ranked(i) ? "" : gap < 0 ? "\u2212" + (-gap).toFixed(gap > -0.05 ? 2 : 1)
            : rows.length > 1 ? "best" : "";
        dots[i].style.display = value === null ? "none" : "";
        dots[i].setAttribute("cx", px(x));
        dots[i].setAttribute("cy", py(value));
      });
    };
    const lines = () => reading.runs
      .map((run, i) => [reading.values[i][at], run])
      .filter(([value, run]) => value !== null && !hidden.has(run))
      .sort((a, b) => b[0] - a[0]);
    const follow = (event) => {
      const box = chart.getBoundingClientRect();
      const x = (event.clientX - box.left) * chart.viewBox.baseVal.width / box.width;
      const share = Math.min(1, Math.max(0, (x - left) / (right - left)));
      const wanted = xStart + share * (xTop - xStart);
      const step = reading.x.length > 1 ? reading.x[1] - reading.x[0] : 1;
      show(Math.min(reading.x.length - 1, Math.max(0, Math.round((wanted - reading.x[0]) / step))));
      tip.replaceChildren(make("strong", `${reading.symbol} = ${reading.shown[at]}`));
      const shown = lines();
      for (const [value, run] of shown.slice(0, 10)) {
        const line = make("div");
        line.append(make("i", undefined, { style: `background:var(--run-${data.colours[run]})` }),
          make("span", data.labels[run]), make("b", percent(value)));
        tip.append(line);
      }
      if (shown.length > 10) tip.append(make("div", `and ${shown.length - 10} more`));
      tip.hidden = shown.length === 0;
      const place = event.clientX - box.left;
      const over = place > box.width / 2;
      tip.style.left = over ? "auto" : `${place + 16}px`;
      tip.style.right = over ? `${box.width - place + 16}px` : "auto";
    };
    chart.addEventListener("pointermove", follow);
    chart.addEventListener("pointerdown", follow);
    chart.addEventListener("pointerleave", () => { tip.hidden = true; });
    slider.addEventListener("input", () => show(Number(slider.value)));

    rows.forEach((row, i) => {
      const run = reading.runs[i];
      const light = (on) => {
        chart.classList.toggle("dimmed", on && !hidden.has(run));
        one(`.run[data-run="${run}"]`, chart).classList.toggle("lit", on);
      };
      one("input", row).addEventListener("change", (event) => toggle([run], event.target.checked));
      for (const type of ["pointerenter", "focusin"]) row.addEventListener(type, () => light(true));
      for (const type of ["pointerleave", "focusout"]) row.addEventListener(type, () => light(false));
    });
    for (const button of all(".all button", root))
      button.addEventListener("click", () => toggle(data.labels.map((_, run) => run), button.value === "all"));
    refresh.push(() => show(at));
  };

  const toggle = (runs, on) => {
    for (const run of runs) {
      if (on) hidden.delete(run); else hidden.add(run);
      for (const element of all(`.run[data-run="${run}"]`)) element.style.display = on ? "" : "none";
      for (const row of all(`tr[data-run="${run}"]`)) {
        row.classList.toggle("off", !on);
        one("input", row).checked = on;
      }
    }
    refresh.forEach((again) => again());
  };

  const filters = document.getElementById("filters");
  if (filters) {
    const { cards, images, names } = data.gallery;
    const kinds = new Map(data.gallery.kinds);  // kind -> heading
    const name = (k) => names[k] ?? String(k);
    const card = (entry) => {
      const [run, kind, index, label, predict, radius, counts, image] = entry;
      const figure = make("figure", undefined, { class: `card ${kind}` });
      const answer = predict < 0 ? "abstains" : predict === label ? name(label) : `says ${name(predict)}`;
      figure.append(make("img", undefined, { src: images[image], alt: label < 0 ? `input ${index}` : `input ${index}, class ${name(label)}` }));
      const text = make("figcaption");
      text.append(make("strong", predict === label || label < 0 ? answer : `${name(label)}: ${answer}`));
      text.append(make("span", predict < 0 ? "no radius" : `radius ${radius}`));
      for (const [k, share, count] of counts) {
        const bar = make("span", undefined, { class: "bar", title: `${count} samples` });
        bar.append(make("i", undefined, { style: `width:${share}%` }), make("span", name(k)), make("b", count));
        text.append(bar);
      }
      text.append(make("small", `input ${index}`));
      figure.append(text);
      return figure;
    };
    const fill = () => {
      const run = Number(filters.run ? filters.run.value : cards[0][0]);
      const found = cards.filter((entry) => entry[0] === run
        && (!filters.label.value || entry[3] === Number(filters.label.value)));
      const wanted = [...kinds.keys()].filter((kind) => !filters.kind.value || kind === filters.kind.value);
      let count = 0;
      const groups = wanted.flatMap((kind) => {
        const own = found.filter((entry) => entry[1] === kind);
        const shown = wanted.length > 1 ? own.slice(0, 7) : own;  // one row of each kind, or all of one
        count += shown.length;
        const row = make("div", shown.length ? undefined : "none", { class: "cards" });
        row.append(...shown.map(card));
        return [make("h3", kinds.get(kind)), row];
      });
      document.getElementById("cards").replaceChildren(...groups);
      one("output", filters).value = count === 1 ? "1 image" : `${count} images`;
    };
    filters.addEventListener("change", fill);
    filters.addEventListener("submit", (event) => event.preventDefault());
    fill();
  }

  // A click on the name of a column sorts by it, a second one turns the order, a third one gives the first order back.
  // Numbers begin with the largest; cells without a value stand last either way, and equal ones stay as they were.
  const sortable = (table) => {
    const body = table.tBodies[0];
    const given = [...body.rows];
    const heads = [...[...table.tHead.rows].at(-1).cells];
    const number = /^(?:\u2264 )?([-+]?\d[\d,.]*(?:e[-+]?\d+)?)(?= |$)/;
    const text = (row, column) => row.cells[column].textContent.trim();
    const columns = heads.map((_, column) => {
      const filled = given.filter((row) => !["", "-"].includes(text(row, column)));
      const numeric = filled.every((row) => number.test(text(row, column)));
      const value = (row) => numeric ? Number(number.exec(text(row, column))[1].replaceAll(",", "")) : text(row, column);
      const compare = (a, b) => numeric ? a - b : a.localeCompare(b, "en", { numeric: true });
      return { filled, value, compare, orders: numeric ? ["descending", "ascending"] : ["ascending", "descending"] };
    });
    const apply = () => {
      const column = heads.findIndex((head) => head.hasAttribute("aria-sort"));
      if (column < 0) return body.append(...given);
      const { filled, value, compare } = columns[column];
      const turn = heads[column].getAttribute("aria-sort") === "ascending" ? 1 : -1;
      const sorted = [...filled].sort((a, b) => turn * compare(value(a), value(b)));
      body.append(...sorted, ...given.filter((row) => !filled.includes(row)));
    };
    heads.forEach((head, column) => {
      if (columns[column].filled.length < 2) return;
      const button = make("button", head.textContent, { type: "button", class: "sort" });
      head.replaceChildren(button);
      button.addEventListener("click", () => {
        const { orders } = columns[column];
        const next = orders[orders.indexOf(head.getAttribute("aria-sort")) + 1];
        for (const other of heads) other.removeAttribute("aria-sort");
        if (next) head.setAttribute("aria-sort", next);
        apply();
      });
    });
    apply();
  };
  all(".results:not(.pairs)").forEach(sortable);

  window.onbeforeprint = () => {
    for (const element of all("details")) element.open = true;
  };
  Object.keys(data.readings).forEach(explore);
  toggle(all(".legend input").filter((box) => !box.checked).map((box) => Number(box.closest("tr").dataset.run)), false);
};
startPage();
