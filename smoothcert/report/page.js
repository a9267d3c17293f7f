"use strict";
// Shows the certified accuracies at the pointer or the slider, and switches runs on and off.
(() => {
  document.documentElement.classList.add("scripted");
  const reading = JSON.parse(document.getElementById("reading").textContent);
  const figure = document.getElementById("curves");
  const chart = figure.querySelector("svg");
  const slider = document.getElementById("radius");
  const rows = [...document.querySelectorAll(".legend li")];
  const runs = [...chart.querySelectorAll(".run")];
  const { left, right, top, bottom, xTop, yTop } = Object.fromEntries(
    Object.entries(chart.dataset).map(([key, value]) => [key, Number(value)]));
  const px = (r) => left + (right - left) * r / xTop;
  const py = (percent) => bottom - (bottom - top) * percent / 100 / yTop;

  const make = (tag, attributes) => {
    const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    return element;
  };
  const cursor = make("path", { style: "stroke:var(--soft)", "stroke-dasharray": "3 3" });
  chart.append(cursor);
  const dots = runs.map((run) => {
    const dot = make("circle", { r: 4, style: "fill:" + run.querySelector("polyline").style.stroke });
    run.append(dot);
    return dot;
  });

  const show = (index) => {
    const r = reading.radii[index];
    slider.value = index;
    slider.setAttribute("aria-valuetext", "radius " + r.toFixed(2));
    document.getElementById("at").value = r.toFixed(2);
    cursor.setAttribute("d", `M${px(r)} ${top}V${bottom}`);
    rows.forEach((row, run) => {
      const percent = reading.values[run][index];
      row.querySelector(".value").textContent = percent.toFixed(1) + "\u00a0%";
      dots[run].setAttribute("cx", px(r));
      dots[run].setAttribute("cy", py(percent));
    });
  };
  const follow = (event) => {
    const box = chart.getBoundingClientRect();
    const x = (event.clientX - box.left) * chart.viewBox.baseVal.width / box.width;
    const share = Math.min(1, Math.max(0, (x - left) / (right - left)));
    const step = reading.radii.length > 1 ? reading.radii[1] : 1;
    show(Math.min(reading.radii.length - 1, Math.round(share * xTop / step)));
  };
  figure.addEventListener("pointermove", follow);
  figure.addEventListener("pointerdown", follow);
  slider.addEventListener("input", () => show(Number(slider.value)));

  const toggles = rows.map((row, run) => {
    const box = row.querySelector("input");
    const toggle = () => {
      row.classList.toggle("off", !box.checked);
      runs[run].style.display = box.checked ? "" : "none";
    };
    const light = (on) => {
      chart.classList.toggle("dimmed", on && box.checked);
      runs[run].classList.toggle("lit", on);
    };
    box.addEventListener("change", toggle);
    for (const type of ["pointerenter", "focusin"]) row.addEventListener(type, () => light(true));
    for (const type of ["pointerleave", "focusout"]) row.addEventListener(type, () => light(false));
    toggle();  // a browser may restore a box unchecked
    return (on) => { box.checked = on; toggle(); };
  });
  for (const button of document.querySelectorAll(".all button"))
    button.addEventListener("click", () => toggles.forEach((toggle) => toggle(button.value === "all")));
  window.addEventListener("beforeprint", () => {
    for (const element of document.querySelectorAll("details")) element.open = true;
  });
  show(reading.start);
})();
