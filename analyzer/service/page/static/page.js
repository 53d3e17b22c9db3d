// Keeps what is live on a page up to date: it is fetched again every few seconds, and only what differs is changed, so that
// focus, scrolling, what is unfolded and what is selected stay as they are. Without this script the page reloads itself now and
// then.
"use strict";

const AGAIN_MS = 5000; // from one fetch to the next: the service looks at its jobs about as often
const PATIENCE_MS = 5000; // for an answer; the slowest under load take a tenth of it
const AGES = [[90, 1, "s"], [90 * 60, 60, "min"], [36 * 3600, 3600, "h"], [Infinity, 86400, "d"]]; // as the service has them
const lost = document.getElementById("lost");

function become(old, fresh) {
  if (old.nodeType !== fresh.nodeType || old.nodeName !== fresh.nodeName || (old.id || "") !== (fresh.id || "")) {
    old.replaceWith(document.importNode(fresh, true));
    return;
  }
  if (old.nodeType !== Node.ELEMENT_NODE) {
    if (old.data !== fresh.data) old.data = fresh.data;
    return;
  }
  const unfolded = old.nodeName === "DETAILS"; // the reader folds, not the server
  for (const { name } of [...old.attributes]) if (!fresh.hasAttribute(name) && !unfolded) old.removeAttribute(name);
  for (const { name, value } of fresh.attributes) {
    if (!(unfolded && name === "open") && old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  children(old, fresh);
}

function children(old, fresh) {
  const byId = new Map([...old.children].filter((one) => one.id).map((one) => [one.id, one]));
  const stay = new Set([...fresh.children].map((one) => one.id).filter(Boolean));
  let place = old.firstChild;
  for (const wanted of fresh.childNodes) {
    const known = wanted.id && byId.get(wanted.id);
    if (known && known !== place) {
      old.insertBefore(known, place); // a row that moved keeps its identity
      place = known;
    }
    if (!place || (place.id && place.id !== wanted.id && stay.has(place.id))) {
      old.insertBefore(document.importNode(wanted, true), place);
      continue;
    }
    const next = place.nextSibling;
    become(place, wanted);
    place = next;
  }
  while (place) {
    const next = place.nextSibling;
    place.remove();
    place = next;
  }
}

let asked = performance.now(), answered = asked;

async function refresh() {
  asked = performance.now();
  try {
    const signal = AbortSignal.timeout(PATIENCE_MS);
    const answer = await fetch(location.href, { headers: { Accept: "text/html" }, cache: "no-store", signal });
    if (!answer.ok) throw new Error(String(answer.status));
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const focused = document.activeElement;
    const old = [...document.querySelectorAll("[data-live]")];
    const fresh = [...page.querySelectorAll("[data-live]")];
    if (old.map((one) => one.id).join() === fresh.map((one) => one.id).join()) {
      old.forEach((one, place) => become(one, fresh[place]));
    } else {
      become(document.getElementById("content"), page.getElementById("content")); // a section has come or gone
    }
    if (focused && focused !== document.activeElement && focused.isConnected) focused.focus({ preventScroll: true });
    become(lost, page.getElementById("lost"));
    answered = performance.now();
  } catch {
    lost.hidden = false;
  }
}

function tick() {
  if (document.hidden) return;
  if (performance.now() - asked > AGAIN_MS) refresh();
  const now = Number(lost.dataset.at) + (performance.now() - answered) / 1000; // by the service's clock
  for (const one of document.querySelectorAll("time")) {
    const age = Math.max(0, now - Date.parse(one.dateTime) / 1000);
    const [, unit, name] = AGES.find(([limit]) => age < limit);
    const text = age < 1.5 ? "now" : `${Math.round(age / unit).toLocaleString("en")}\u00a0${name} ago`;
    if (one.textContent !== text) one.textContent = text;
  }
}

setInterval(tick, 1000);
document.addEventListener("visibilitychange", tick);
