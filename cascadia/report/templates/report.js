// Hover, sorting and CSV, all in the page itself: nothing is fetched and nothing is sent.
"use strict";
(() => {
  const NEAR_PX = 28;
  const tip = document.body.appendChild(document.createElement("div"));
  tip.id = "tip";
  tip.hidden = true;

  // Charts say what their nearest mark is, at once; without a script their titles do so after a while.
  for (const chart of document.querySelectorAll("svg.chart")) {
    const marks = [...chart.querySelectorAll("title")].map((title) => {
      const text = title.textContent;
      const mark = title.parentNode;
      mark.setAttribute("aria-label", text);
      title.remove();
      return { mark, text };
    });
    const distance = (box, event) => Math.hypot(
      Math.max(box.left - event.clientX, 0, event.clientX - box.right),
      Math.max(box.top - event.clientY, 0, event.clientY - box.bottom));
    let lit = null;
    const light = (mark) => {
      if (lit) lit.classList.remove("lit");
      if (mark) mark.classList.add("lit");
      lit = mark;
    };
    chart.addEventListener("pointermove", (event) => {
      let best = null;
      for (const one of marks) {
        const box = one.mark.getBoundingClientRect();
        const far = distance(box, event);
        // Of two that lie under the pointer the smaller is meant.
        const size = box.width * box.height;
        if (far <= NEAR_PX && (!best || far < best.far || (far === best.far && size < best.size))) best = { ...one, far, size };
      }
      light(best && best.mark);
      tip.hidden = !best;
      if (!best) return;
      tip.textContent = best.text;
      const left = Math.min(event.clientX + 14, document.documentElement.clientWidth - tip.offsetWidth - 8);
      tip.style.left = `${Math.max(8, left) + scrollX}px`;
      tip.style.top = `${event.clientY + scrollY + 18}px`;
    });
    chart.addEventListener("pointerleave", () => { light(null); tip.hidden = true; });
  }

  const UNITS = { ms: 1e-3, s: 1, min: 60, "%": 0.01, M: 1e6, G: 1e9 };

  function value(text) {
    // What a cell says as a number: the first in it, by its unit; NaN where there is none.
    const found = /([−-]?)\$?([\d,]*\.?\d+)\s*(ms|min|s|%|M|G)?(?![a-z])/.exec(text);
    return found ? (found[1] ? -1 : 1) * Number(found[2].replaceAll(",", "")) * (UNITS[found[3]] || 1) : NaN;
  }

  const cellOf = (row, at) => row.cells[at].textContent.trim();

  function sort(table, at, head) {
    const down = head.getAttribute("aria-sort") === "ascending";
    for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const rows = [...table.tBodies[0].rows];
    const numbers = !head.classList.contains("t") || rows.every((row) => /^[≥≤−-]?\s*\$?\d/.test(cellOf(row, at)));
    const order = (one, other) => {
      const [a, b] = [one, other].map((row) => cellOf(row, at));
      if (!numbers) return a.localeCompare(b, "en", { numeric: true });
      const [x, y] = [value(a), value(b)];
      return Number.isNaN(x) || Number.isNaN(y) ? 0 : x - y;
    };
    // What has no number stays below, whichever way.
    const known = rows.filter((row) => !numbers || !Number.isNaN(value(cellOf(row, at))));
    const unknown = rows.filter((row) => !known.includes(row));
    known.sort(order);
    table.tBodies[0].append(...(down ? known.reverse() : known), ...unknown);
  }

  function csv(table) {
    // A cell that a spreadsheet would take for a formula is told to be text.
    const quoted = (text) => `"${(/^[=+@\t\r]/.test(text) ? `'${text}` : text).replaceAll('"', '""')}"`;
    const said = (cell) => [...cell.childNodes].map((node) => node.textContent.trim()).filter(Boolean).join(" ");
    return [...table.rows].map((row) => [...row.cells].map((cell) => quoted(said(cell))).join(",")).join("\r\n") + "\r\n";
  }

  for (const table of document.querySelectorAll("table")) {
    const name = table.closest("section").id;
    const save = document.createElement("button");
    save.type = "button";
    save.className = "csv";
    save.textContent = "CSV";
    save.setAttribute("aria-label", `Save this table as ${name}.csv`);
    save.addEventListener("click", () => {
      const link = document.createElement("a");
      link.href = URL.createObjectURL(new Blob([csv(table)], { type: "text/csv" }));
      link.download = `${name}.csv`;
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 1000);
    });
    table.createCaption().append(save);
    if (!table.tHead || table.tBodies[0].rows.length < 2) continue;
    [...table.tHead.rows[0].cells].forEach((head, at) => {
      const button = document.createElement("button");
      button.type = "button";
      button.className = "sort";
      button.textContent = head.textContent;
      button.addEventListener("click", () => sort(table, at, head));
      head.replaceChildren(button);
    });
  }
})();
