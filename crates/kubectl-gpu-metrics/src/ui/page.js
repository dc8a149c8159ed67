// Fetches the page again and replaces its content. Without a script the pages are the
// same, and are reloaded by hand.
"use strict";
const main = document.querySelector("main");
const every = Number(main.dataset.every);
const box = Object.assign(document.createElement("input"), { type: "checkbox", checked: true, id: "every" });
const label = document.createElement("label");
const stale = document.createElement("span");
label.append(box, ` refresh every ${every} s `);
if (every > 0) document.querySelector("#refresh").append(label, stale);

// Typing, choosing, selecting and reading a chart's numbers suspend the refresh.
const isBusy = () => document.hidden || main.querySelector("details[open]") || !getSelection().isCollapsed
  || (main.contains(document.activeElement) && document.activeElement.matches("input, select, pre"));

// A touch shows the numbers of an instant, which a pointer has as a tooltip.
main.addEventListener("click", (event) => {
  const title = event.target.closest("svg *")?.querySelector("title");
  const output = event.target.closest("figure")?.querySelector("output");
  if (title && output) output.textContent = title.textContent;
});

const reached = () => [...main.querySelectorAll("a, button, [tabindex]")];

async function refresh() {
  if (box.checked && !isBusy()) {
    try {
      const answer = await fetch(location.href, { signal: AbortSignal.timeout(30000) });
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const place = reached().indexOf(document.activeElement);
      main.replaceChildren(...page.querySelector("main").childNodes);
      if (place >= 0) reached()[place]?.focus({ preventScroll: true });
      stale.textContent = "";
      document.documentElement.dataset.refreshed = Date.now();
    } catch {
      stale.textContent ||= `not refreshed since ${new Date().toLocaleTimeString()}`;
    }
  }
  setTimeout(refresh, every * 1000);
}
if (every > 0) setTimeout(refresh, every * 1000);
