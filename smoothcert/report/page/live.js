"use strict";
// Asks the server whether files have changed, and puts the newer page in place of this one as the reader has set it.
(() => {
  const status = document.getElementById("serving");
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const dataOf = (page) => JSON.parse(page.getElementById("data").textContent);
  const columnOf = (button) => [button.closest(".scroll").getAttribute("aria-label"), button.textContent].join("\n");
  const key = (element) => element && (element.id || (element.classList.contains("sort") && columnOf(element)));

  // What the reader has chosen, by names that a newer page has too.
  const choices = () => {
    const data = dataOf(document);
    return {
      hidden: all(".explorer tr.off").map((row) => data.labels[row.dataset.run]),
      at: all("input[type=range]").map((slider) =>
        [slider.id, data.readings[slider.id.replace("-slider", "")].x[slider.value]]),
      sorted: all("th[aria-sort] .sort").map((button) => [columnOf(button), button.parentElement.getAttribute("aria-sort")]),
      selected: all("#filters select").map((select) => [select.name, select.selectedOptions[0].text]),
      open: all("details").map((element) => [element.firstElementChild.textContent, element.open]),
      scrolled: all(".scroll, .list").map((element) => element.scrollLeft || element.scrollTop),
      focus: key(document.activeElement),
    };
  };
  const choose = (chosen) => {
    const data = dataOf(document);
    for (const row of all("tr[data-run]"))
      if (chosen.hidden.includes(data.labels[row.dataset.run])) row.querySelector("input").checked = false;
    for (const [id, x] of chosen.at) {
      const slider = document.getElementById(id);
      if (!slider) continue;
      const distances = data.readings[id.replace("-slider", "")].x.map((other) => Math.abs(other - x));
      slider.value = distances.indexOf(Math.min(...distances));
    }
    for (const [name, text] of chosen.selected) {
      const option = all(`#filters [name=${name}] option`).find((other) => other.text === text);
      if (option) option.selected = true;
    }
    const open = new Map(chosen.open);
    for (const element of all("details")) element.open = open.get(element.firstElementChild.textContent) ?? element.open;
    for (const head of all(".results:not(.pairs) thead tr:last-child th")) {
      const table = head.closest(".scroll").getAttribute("aria-label");
      const found = chosen.sorted.find(([column]) => column === [table, head.textContent].join("\n"));
      if (found) head.setAttribute("aria-sort", found[1]);
    }
  };

  const renew = async () => {
    const fresh = new DOMParser().parseFromString(await (await fetch("/")).text(), "text/html");
    if (![document, fresh].every((page) => page.getElementById("data"))) return location.reload();
    const chosen = choices();
    const place = [scrollX, scrollY];
    for (const part of ["main", "#data"])
      document.querySelector(part).replaceWith(fresh.querySelector(part));
    choose(chosen);
    startPage();
    all(".scroll, .list").forEach((element, i) => {
      element[element.matches(".list") ? "scrollTop" : "scrollLeft"] = chosen.scrolled[i] ?? 0;
    });
    const focused = chosen.focus && all("[id], .sort").find((element) => key(element) === chosen.focus);
    if (focused) focused.focus({ preventScroll: true });
    scrollTo(...place);
    status.dataset.version = fresh.getElementById("serving").dataset.version;
  };

  const tell = (text, kind) => {
    if (status.textContent !== text) status.textContent = text;  // else a screen reader would say it again
    status.className = `serving ${kind}`;
  };
  const look = async () => {
    let wait = 2000;
    try {
      const state = await (await fetch("/state")).json();
      const started = performance.now();
      if (state.version !== status.dataset.version) await renew();
      wait = Math.max(wait, 10 * (performance.now() - started));  // the runs need the machine more than this page does
      tell(state.finished ? "All runs are finished" : `Live: ${state.text}`, state.finished ? "done" : "going");
    } catch (error) {
      if (![TypeError, SyntaxError].some((kind) => error instanceof kind)) throw error;  // no answer, or another's
      tell("The server has gone: this is what it showed last", "gone");
    }
    setTimeout(look, wait);
  };
  look();
})();
