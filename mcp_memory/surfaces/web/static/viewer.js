// What makes the pages quicker to use. Each of them works without it.
"use strict";
const $ = (selector, within = document) => within.querySelector(selector);
const $$ = (selector, within = document) => [...within.querySelectorAll(selector)];

async function part(address, signal) {
  const url = new URL(address, location.href);
  url.searchParams.set("part", "1");
  const answer = await fetch(url, { signal, headers: { accept: "text/html" }, credentials: "same-origin" });
  if (answer.status === 401) location.reload();
  if (!answer.ok) throw new Error(`${answer.status}`);
  return answer.text();
}

// Evidence opens beside what it stands behind; a click with a modifier, or without room, follows the link.
const beside = $("#beside");
let opener = null;
async function openBeside(link) {
  let html;
  try { html = await part(link.href); } catch { location.assign(link.href); return; }
  beside.innerHTML = `<button type="button" class="button close" data-close>Close <kbd>Esc</kbd></button>${html}`;
  // Going back closes it, instead of leaving the page.
  if (beside.hidden) history.pushState({ beside: true }, "");
  beside.hidden = false;
  $(".stage").classList.add("split");
  opener = link;
  showCited(beside);
  beside.tabIndex = -1;
  beside.focus({ preventScroll: true });
  watch(beside);
}
// The panel scrolls to the first line of the cited words, below the buttons that stay on top of it.
function showCited(panel) {
  const mark = $("#excerpt", panel) || $(".cited", panel);
  panel.scrollTop = 0;
  if (!mark) return;
  const tools = $(".tools", panel), covered = tools ? tools.offsetHeight : 0;
  panel.scrollTop = mark.getClientRects()[0].top - panel.getBoundingClientRect().top - covered - 48;
}
function closeBeside() {
  if (!beside || beside.hidden) return false;
  if (history.state?.beside) history.back();
  else hideBeside();
  return true;
}
function hideBeside() {
  if (!beside || beside.hidden) return;
  beside.hidden = true;
  beside.replaceChildren();
  $(".stage").classList.remove("split");
  if (opener) opener.focus();
}
addEventListener("popstate", hideBeside);

// A conversation goes on in both directions, without losing its place.
async function goOn(link) {
  const list = link.closest("[data-conversation]"), earlier = link.dataset.more === "earlier";
  const box = document.createElement("template");
  const address = link.href, held = document.activeElement === link;
  link.removeAttribute("href");
  try { box.innerHTML = await part(link.dataset.part); } catch { link.href = address; return; }
  const onward = $(`[data-more="${link.dataset.more}"]`, box.content)?.closest(".onward");
  const events = $$(".event", box.content), place = link.closest(".onward");
  const scroller = link.closest("#beside") || document.scrollingElement, before = scroller.scrollHeight;
  const found = onward ? (earlier ? [onward, ...events] : [...events, onward]) : events;
  place.replaceWith(...found);
  if (earlier) scroller.scrollTop += scroller.scrollHeight - before;
  if (held) $("a", earlier ? found.at(-1) : found[0])?.focus({ preventScroll: true });
  watch(list);
}
const near = "IntersectionObserver" in window && new IntersectionObserver((seen) => {
  for (const each of seen) if (each.isIntersecting) { near.unobserve(each.target); goOn(each.target); }
}, { rootMargin: "300px" });
function watch(within) {
  // Only what lies ahead is loaded by itself: what lies behind would move the words one reads.
  if (near) for (const link of $$('[data-more="later"][href]', within)) near.observe(link);
}

async function copy(text, button) {
  const label = button.textContent;
  try { await navigator.clipboard.writeText(text); button.textContent = "Copied"; }
  catch { button.textContent = "Select and copy it by hand"; }
  setTimeout(() => { button.textContent = label; }, 1500);
}

document.addEventListener("click", (event) => {
  const link = event.target.closest("a, button");
  if (!link || event.defaultPrevented || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
  if (link.matches("[data-beside]") && !link.closest("#beside")) { event.preventDefault(); openBeside(link); }
  else if (link.matches("[data-more][href]")) { event.preventDefault(); goOn(link); }
  else if (link.matches("[data-close]")) closeBeside();
  else if (link.matches("[data-help]")) $("#keys").showModal();
  else if (link.matches("[data-copy]")) copy(link.dataset.copy, link);
  else if (link.matches("[data-copy-link]")) copy(new URL(link.dataset.copyLink, location.href).href, link);
});
for (const select of $$("[data-submits]")) select.addEventListener("change", () => select.form.submit());

// Keys.
function items() { return $$("[data-item]").filter((item) => item.checkVisibility() && !item.closest("#beside")); }
function leave() { $(".at")?.classList.remove("at"); }
function move(step) {
  const all = items(), place = all.indexOf($(".at")) + step;
  if (!all.length) return;
  leave();
  const item = all[Math.max(0, Math.min(all.length - 1, place))];
  item.classList.add("at");
  item.scrollIntoView({ block: "nearest" });
  // What an item is about, before what else it links to.
  ($("a.main, a.said", item) || $("a", item))?.focus({ preventScroll: true });
}
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || $("#keys")?.open) return;
  const typing = event.target.matches("input, textarea, select");
  if (event.key === "Escape") {
    if (closeBeside()) event.preventDefault();
    else if (typing) event.target.blur();
    return;
  }
  if (typing) {
    if (event.key === "ArrowDown" && event.target.matches("[type=search]")) { event.preventDefault(); leave(); move(1); }
    return;
  }
  if (event.key === "/") { event.preventDefault(); const box = $("#q") || $("#find"); box.focus(); box.select(); }
  else if (event.key === "j") move(1);
  else if (event.key === "k") move(-1);
  else if (event.key === "?") $("#keys").showModal();
});

// Search as you type: the latest words count, and the address follows them.
const form = $("[data-search]");
if (form) {
  let asking, timer;
  const ask = async () => {
    const query = new URLSearchParams([...new FormData(form)].filter(([, value]) => value));
    const address = `/search?${query}`;
    asking?.abort();
    asking = new AbortController();
    try {
      const html = await part(address, asking.signal);
      $("#results").innerHTML = html;
      history.replaceState(null, "", address);
    } catch (error) {
      if (error.name === "AbortError") return;
      $("#results").innerHTML = '<p class="notice">There is no answer. Is the server still running?</p>';
    }
  };
  // Some fields stand in the head of the page; they belong to the form, but their events do not pass through it.
  document.addEventListener("input", (event) => {
    if (event.target.form !== form) return;
    clearTimeout(timer);
    timer = setTimeout(ask, 120);
  });
  form.addEventListener("submit", (event) => { event.preventDefault(); clearTimeout(timer); ask(); });
}
// On a narrow screen a calendar begins where something was done last, not where the year ends.
for (const calendar of $$(".heat .scroll")) {
  const last = $$("a", calendar).at(-1)?.getBoundingClientRect().right, edge = calendar.getBoundingClientRect().right;
  if (last > edge) calendar.scrollLeft = last - edge + 16;
}
for (const conversation of $$("[data-conversation]")) watch(conversation);
const cited = $("#excerpt");
if (cited && !location.hash) cited.scrollIntoView({ block: cited.offsetHeight > innerHeight / 2 ? "start" : "center" });

// News of what is captured and written, on the pages that show it.
const live = $("[data-live]"), waiting = $("[data-live-waiting]");
if (waiting) {
  const dot = $("[data-live-dot]");
  let news = null, since = waiting.dataset.since;
  const tell = (on) => { dot?.classList.replace(on ? "busy" : "good", on ? "good" : "busy"); document.body.dataset.live = on ? "on" : "off"; };
  // A browser holds few connections to a server, so that pages out of sight give theirs back and catch up later.
  // The news of the project and the person that the page is about.
  const address = new URL("/live/stream", location.href);
  for (const name of ["project", "person"]) {
    const value = new URL(location.href).searchParams.get(name);
    if (value) address.searchParams.set(name, value);
  }
  // Rows stand in order of time, whatever came in first.
  const insert = (row) => {
    const at = $("time", row).dateTime;
    $("[data-live-quiet]")?.remove();
    live.insertBefore(row, [...live.children].find((each) => $("time", each).dateTime <= at) || null);
  };
  const listen = () => {
    news?.close();
    if (document.hidden) { tell(false); return; }
    address.searchParams.set("since", since);
    news = new EventSource(address);
    news.onopen = () => tell(true);
    news.onerror = () => tell(false);
    news.addEventListener("news", show);
  };
  const show = (message) => {
    since = message.lastEventId;
    const told = JSON.parse(message.data);
    waiting.textContent = told.waiting;
    for (const html of live ? [...told.events, ...told.written.reverse()] : []) {
      const box = document.createElement("template");
      box.innerHTML = html;
      const row = $("li", box.content);
      row.classList.add("fresh");
      insert(row);
    }
    while (live && live.children.length > 200) live.lastElementChild.remove();
    const sessions = $("[data-live-sessions]");
    if (sessions && told.events.length) part(location.href).then((html) => {
      const box = document.createElement("template");
      box.innerHTML = html;
      sessions.replaceWith($("[data-live-sessions]", box.content) || sessions);
    });
  };
  document.addEventListener("visibilitychange", listen);
  addEventListener("pagehide", () => news?.close());
  addEventListener("pageshow", listen);
}
