// The pages of the site in a browser: search, colours, copy buttons and tabs. Nothing is loaded from elsewhere.
const root = document.body.dataset.root;

// -----------------------------------------------------------------------------
// search: every word must occur; a heading counts more than a text, a page's title most
// -----------------------------------------------------------------------------

const field = document.querySelector(".tools input");
const found = document.querySelector(".found");
let loading;

const load = () =>
  loading ??= new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.src = `${root}search.js`;
    script.onload = resolve;
    script.onerror = reject;
    document.head.append(script);
  });

const score = ([page, heading, , text], words) => {
  const [inPage, inHeading, inText] = [page, heading, text].map((part) => part.toLowerCase());
  let sum = 0;
  for (const word of words) {
    const one = (inHeading.includes(word) ? 6 : 0) + (inPage.includes(word) ? 4 : 0) + (inText.includes(word) ? 1 : 0)
      + (inHeading === word ? 10 : 0);
    if (one === 0) return 0;
    sum += one;
  }
  return sum;
};

const show = async () => {
  const words = field.value.toLowerCase().split(/\s+/).filter((word) => word !== "");
  if (words.length === 0) return found.replaceChildren();
  await load();
  const hits = globalThis.searchIndex.map((entry) => ({ entry, worth: score(entry, words) })).filter(({ worth }) =>
    worth > 0
  )
    // The reference has a page for each module: of equals, guides come first.
    .sort((a, b) => b.worth - a.worth || a.entry[2].startsWith("api/") - b.entry[2].startsWith("api/")).slice(0, 12);
  found.replaceChildren(...hits.map(({ entry: [page, heading, address, text] }) => {
    const at = Math.max(0, text.toLowerCase().indexOf(words[0]) - 30);
    const link = document.createElement("a");
    link.href = root + address;
    const place = document.createElement("small");
    place.textContent = `${page === heading ? "" : `${page}: `}${text.slice(at, at + 110)}`;
    link.append(heading, place);
    const item = document.createElement("li");
    item.append(link);
    return item;
  }));
  if (hits.length === 0) {
    const none = document.createElement("li");
    none.className = "none";
    none.textContent = `Nothing about “${field.value}”`;
    found.append(none);
  }
};

field.addEventListener("focus", load);
field.addEventListener("input", show);
addEventListener("keydown", (event) => {
  const links = [...found.querySelectorAll("a")];
  const at = links.indexOf(document.activeElement);
  if (event.key === "/" && !/^(INPUT|TEXTAREA)$/.test(document.activeElement.tagName)) field.focus();
  else if (event.key === "Escape") found.replaceChildren();
  else if (links.length > 0 && event.key === "ArrowDown") links[Math.min(links.length - 1, at + 1)].focus();
  else if (links.length > 0 && event.key === "ArrowUp" && at >= 0) (links[at - 1] ?? field).focus();
  else if (event.key === "Enter" && document.activeElement === field && links.length > 0) links[0].click();
  else return;
  event.preventDefault();
});
addEventListener("click", (event) => {
  if (!event.target.closest(".tools") || event.target.closest(".found a")) found.replaceChildren();
});

// -----------------------------------------------------------------------------
// colours, copying, tabs
// -----------------------------------------------------------------------------

const themes = { "": "Auto", light: "Light", dark: "Dark" };
const theme = document.querySelector(".theme");
const paint = (name) => {
  document.documentElement.dataset.theme = name;
  theme.textContent = themes[name] ?? "Auto";
  theme.setAttribute("aria-label", `Colours: ${theme.textContent}`);
};
paint(localStorage.getItem("theme") ?? "");
theme.addEventListener("click", () => {
  const names = Object.keys(themes);
  const next = names[(names.indexOf(document.documentElement.dataset.theme) + 1) % names.length];
  localStorage.setItem("theme", next);
  paint(next);
});

for (const block of document.querySelectorAll(".code")) {
  const button = document.createElement("button");
  button.className = "copy";
  button.type = "button";
  button.textContent = "Copy";
  button.addEventListener("click", async () => {
    // What follows a prompt is typed; what stands between is printed.
    const text = block.querySelector("code").textContent;
    const typed = text.split("\n").filter((line) => line.startsWith("$ ")).map((line) => line.slice(2));
    await navigator.clipboard.writeText(typed.length > 0 ? typed.join("\n") : text.trimEnd());
    button.textContent = "Copied";
    setTimeout(() => {
      button.textContent = "Copy";
    }, 1500);
  });
  block.append(button);
}

const groups = [...document.querySelectorAll(".tabs")].map((group) => {
  const sections = [...group.children];
  const list = document.createElement("div");
  list.className = "tablist";
  list.setAttribute("role", "tablist");
  const buttons = sections.map((section) => {
    const button = document.createElement("button");
    button.type = "button";
    button.setAttribute("role", "tab");
    button.textContent = section.dataset.tab;
    button.addEventListener("click", () => choose(section.dataset.tab));
    section.setAttribute("role", "tabpanel");
    section.setAttribute("aria-label", section.dataset.tab);
    return button;
  });
  list.append(...buttons);
  group.prepend(list);
  return { sections, buttons };
});

/** One choice for all pages. */
const choose = (name) => {
  localStorage.setItem("style", name);
  for (const { buttons, sections } of groups) {
    const chosen = sections.some((section) => section.dataset.tab === name) ? name : sections[0].dataset.tab;
    sections.forEach((section, i) => {
      section.hidden = section.dataset.tab !== chosen;
      buttons[i].setAttribute("aria-selected", String(section.dataset.tab === chosen));
    });
  }
};
if (groups.length > 0) choose(localStorage.getItem("style") ?? "Effect");
