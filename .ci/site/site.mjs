// Builds the documentation site, from README.md, docs/, the packages' READMEs and the API reference in docs/api, into
// docs/site: static pages without a server, fonts or scripts from elsewhere. Every link is checked, to files and to
// headings. Hand-written because a site generator would bring more packages than this project has, for pages that need
// one template; Markdown and colours come from `marked` and `highlight.js`.
import hljs from "highlight.js"
import { Marked } from "marked"
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs"
import { dirname, posix } from "node:path"
import { publishable, root } from "../packages.mjs"

const home = "https://github.com/effect-tinker/effect-tinker"
const out = `${root}docs/site`

/** Where a Markdown file of the repository is on the site; `undefined` for what stays in the repository. */
const pageOf = (path) => {
  if (path === "README.md") return "index.html"
  if (path === "docs/api/README.md") return "api/index.html"
  if (path.startsWith("docs/") && path.endsWith(".md")) return path.slice(5).replace(/\.md$/, ".html")
  const [, name] = /^packages\/(\w+)\/README\.md$/.exec(path) ?? []
  return name !== undefined && publishable.some((pkg) => pkg.name === name) ? `packages/${name}.html` : undefined
}

const escape = (text) =>
  text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll("\"", "&quot;")
const read = (path) => readFileSync(`${root}${path}`, "utf8")
const titleOf = (markdown, path) => /^# (.+)$/m.exec(markdown)?.[1].replaceAll("`", "") ?? posix.basename(path, ".md")

/** The name of a heading in links, as GitHub makes it. */
const slugger = () => {
  const seen = new Map()
  return (text) => {
    const plain = text.replaceAll(/<[^>]*>/g, "").replaceAll(/&\w+;/g, "").toLowerCase()
    const slug = plain.replaceAll(/[^\p{L}\p{N}\s_-]/gu, "").trim().replaceAll(/\s/g, "-")
    const count = seen.get(slug) ?? 0
    seen.set(slug, count + 1)
    return count === 0 ? slug : `${slug}-${count}`
  }
}

const languages = {
  ts: "typescript",
  tsx: "typescript",
  js: "javascript",
  sh: "bash",
  json: "json",
  py: "python"
}

const problems = []
const pages = new Map()

const render = (path, markdown) => {
  const here = pageOf(path)
  const slug = slugger()
  const anchors = new Set()
  const links = []
  const headings = []
  const resolve = (href) => {
    if (/^[a-z]+:/.test(href)) return href
    const [file, fragment] = href.split("#")
    const target = file === "" ? path : posix.normalize(posix.join(posix.dirname(path), decodeURIComponent(file)))
    const suffix = fragment === undefined ? "" : `#${fragment}`
    const page = pageOf(target)
    if (page !== undefined) {
      links.push({ from: path, href, target, fragment })
      return `${posix.relative(posix.dirname(here), page)}${suffix}`
    }
    if (!existsSync(`${root}${target}`)) problems.push(`${path}: ${href} leads nowhere`)
    return target.startsWith("docs/assets/")
      ? posix.relative(posix.dirname(here), target.slice(5))
      : `${home}/${
        existsSync(`${root}${target}`) && statSync(`${root}${target}`).isDirectory() ? "tree" : "blob"
      }/main/${target}${suffix}`
  }
  const marked = new Marked({
    renderer: {
      heading(text, level) {
        const id = slug(text)
        anchors.add(id)
        if (level === 2) headings.push({ id, text: text.replaceAll(/<[^>]*>/g, "") })
        return `<h${level} id="${id}"><a class="anchor" href="#${id}" aria-label="Link to this section">#</a>${text}</h${level}>\n`
      },
      link: (href, _, text) => `<a href="${escape(resolve(href))}">${text}</a>`,
      image: (href, _, text) => `<img src="${escape(resolve(href))}" alt="${escape(text)}" loading="lazy">`,
      code(code, info) {
        const language = languages[(info ?? "").split(/\s/)[0]]
        const inner = language === undefined ? escape(code) : hljs.highlight(code, { language }).value
        return `<div class="code"><pre tabindex="0"><code>${inner}</code></pre></div>\n`
      },
      table: (header, body) =>
        // A corner without a name heads nothing.
        `<div class="table" tabindex="0"><table>${
          /<th[^>]*>\s*[^<\s]/.test(header)
            ? `<thead>${header.replaceAll(/<th([^>]*)>\s*<\/th>/g, "<td$1></td>")}</thead>`
            : ""
        }<tbody>${body}</tbody></table></div>\n`
    }
  })
  // Blocks between `<!-- tabs: A | B -->` and `<!-- /tabs -->` are shown one at a time, each from its own comment
  // `<!-- tab -->`; on GitHub they follow each other.
  const tabs = markdown.replaceAll(/<!-- tabs: (.+?) -->\n([\s\S]*?)<!-- \/tabs -->\n/g, (_, names, inner) => {
    const bodies = inner.split(/<!-- tab -->\n/)
    return `\n<div class="tabs">\n${
      names.split("|").map((name, i) =>
        `<section data-tab="${escape(name.trim())}">\n\n${bodies[i] ?? ""}\n\n</section>\n`
      )
        .join("")
    }</div>\n\n`
  })
  const html = marked.parse(tabs.replaceAll(/<!--[\s\S]*?-->\n?/g, ""))
  pages.set(path, { here, html, anchors, links, headings, title: titleOf(markdown, path) })
}

const guides = readdirSync(`${root}docs`).filter((file) => file.endsWith(".md")).sort()
// Without its index the reference is not complete.
const api = existsSync(`${root}docs/api/README.md`)
  ? readdirSync(`${root}docs/api`, { recursive: true }).filter((file) => file.endsWith(".md")).sort()
  : []
for (
  const path of [
    "README.md",
    ...guides.map((file) => `docs/${file}`),
    ...publishable.map(({ name }) => `packages/${name}/README.md`),
    ...api.map((file) => `docs/api/${file}`)
  ]
) render(path, read(path))

// The API reference is made by `npm run docs`; where only the guides are built, its links cannot be followed.
for (const { links } of pages.values()) {
  for (const { fragment, from, href, target } of links) {
    const page = pages.get(target)
    if (page === undefined) {
      if (!target.startsWith("docs/api/") || api.length > 0) problems.push(`${from}: ${href} leads to no page`)
    } else if (fragment !== undefined && !page.anchors.has(fragment)) problems.push(`${from}: ${href} names no heading`)
  }
}

// The order of the guides is that of the README's table; what it does not name comes last.
const groups = Array.from(
  /\n## Guides\n([\s\S]*?)\n## /.exec(read("README.md"))?.[1].matchAll(/^\| (\w[\w ]*) \|(.*)\|$/gm) ?? [],
  ([, name, cells]) => ({
    name,
    paths: Array.from(cells.matchAll(/\]\(\.\/(docs\/[\w-]+\.md)\)/g), ([, path]) => path)
  })
)
const named = new Set(groups.flatMap(({ paths }) => paths))
const navigation = [
  ...groups,
  { name: "Others", paths: guides.map((file) => `docs/${file}`).filter((path) => !named.has(path)) },
  { name: "Packages", paths: publishable.map(({ name }) => `packages/${name}/README.md`) },
  ...(api.length > 0 ? [{ name: "Reference", paths: ["docs/api/README.md"] }] : [])
].filter(({ paths }) => paths.length > 0)

const sidebar = (here) =>
  navigation.map(({ name, paths }) =>
    `<h2>${name}</h2><ul>${
      paths.map((path) => {
        const page = pages.get(path)
        const current = page.here === here ? " aria-current=\"page\"" : ""
        return `<li><a href="${posix.relative(posix.dirname(here), page.here)}"${current}>${
          escape(page.title)
        }</a></li>`
      }).join("")
    }</ul>`
  ).join("\n")

/** In the dark, unless the reader has chosen light; or by choice. */
const darkly = (rules) =>
  `@media (prefers-color-scheme: dark) { :root:not([data-theme="light"]) { ${rules} } }\n:root[data-theme="dark"] { ${rules} }`

const style = `
:root { color-scheme: light; --text: #1f2328; --soft: #59636e; --line: #d1d9e0; --ground: #fff; --shade: #f6f8fa; --link: #0b61c9;
  --keyword: #cf222e; --string: #0a3069; --comment: #59636e; --title: #6639ba; --number: #0550ae }
${
  darkly(`color-scheme: dark; --text: #e6edf3; --soft: #9198a1; --line: #30363d; --ground: #0d1117; --shade: #161b22;
  --link: #58a6ff; --keyword: #ff7b72; --string: #a5d6ff; --comment: #9198a1; --title: #d2a8ff; --number: #79c0ff`)
}
* { box-sizing: border-box }
body { margin: 0; color: var(--text); background: var(--ground); font: 16px/1.6 system-ui, sans-serif; overflow-wrap: break-word }
a { color: var(--link); text-decoration: none } a:hover { text-decoration: underline }
.skip { position: absolute; left: -999px } .skip:focus { left: 8px; top: 8px; background: var(--ground); padding: 8px; z-index: 2 }
header { border-bottom: 1px solid var(--line); padding: 12px 24px; display: flex; gap: 24px; align-items: baseline; flex-wrap: wrap }
header .name { font-weight: 600; color: var(--text) }
.tools { margin-left: auto; display: flex; gap: 8px; position: relative }
button, .tools input { font: inherit; font-size: 14px; color: var(--text); background: var(--ground); border: 1px solid var(--line); border-radius: 7px; padding: 4px 10px }
button { cursor: pointer } .tools input { width: 240px } :focus-visible { outline: 2px solid var(--link); outline-offset: 1px }
.found { position: absolute; right: 0; top: 38px; width: min(560px, calc(100vw - 32px)); max-height: 70vh; overflow: auto; background: var(--ground); border: 1px solid var(--line); border-radius: 10px; padding: 6px; margin: 0; list-style: none; z-index: 3; box-shadow: 0 12px 36px #0003 }
.found:empty { display: none } .found a { display: block; padding: 6px 10px; border-radius: 6px; color: var(--text) } .found a:hover, .found a:focus { background: var(--shade); text-decoration: none }
.found small { display: block; color: var(--soft); overflow: hidden; text-overflow: ellipsis; white-space: nowrap } .found .none { padding: 6px 10px; color: var(--soft) }
.code { position: relative } .copy { position: absolute; right: 8px; top: 8px; font-size: 12px; padding: 1px 8px; opacity: 0; color: var(--soft) } .code:hover .copy, .copy:focus { opacity: 1 } @media (hover: none) { .copy { opacity: 1 } }
.tablist { display: flex; gap: 4px; margin-bottom: -8px } .tablist button { border: 0; border-bottom: 2px solid transparent; border-radius: 0; color: var(--soft) } .tablist [aria-selected="true"] { color: var(--text); border-color: var(--link); font-weight: 600 }
.frame { display: grid; grid-template-columns: 260px minmax(0, 820px) 200px; gap: 40px; max-width: 1400px; margin: 0 auto; padding: 0 24px }
nav.guides { padding: 16px 0 48px; font-size: 14px; position: sticky; top: 0; align-self: start; max-height: 100vh; overflow-y: auto }
nav h2 { font-size: 12px; text-transform: uppercase; letter-spacing: .05em; color: var(--soft); margin: 20px 0 4px }
nav ul { list-style: none; margin: 0; padding: 0 } nav li a { display: block; padding: 3px 0; color: inherit }
nav a[aria-current] { color: var(--link); font-weight: 600 }
nav.contents { padding: 32px 0; font-size: 13px; position: sticky; top: 0; align-self: start; max-height: 100vh; overflow-y: auto; color: var(--soft) }
summary { display: none }
main { padding: 24px 0 80px; min-width: 0 } main :is(p, li, td) a { text-decoration: underline; text-underline-offset: 2px; text-decoration-thickness: 1px }
h1 { font-size: 30px; line-height: 1.25 } h1, h2, h3 { scroll-margin-top: 12px } main h2 { border-bottom: 1px solid var(--line); padding-bottom: 6px; margin-top: 40px }
.anchor { float: left; margin-left: -18px; width: 18px; color: var(--soft); opacity: 0 } :is(h1, h2, h3, h4):hover .anchor, .anchor:focus { opacity: 1 }
code { font: 13.5px/1.5 ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; background: var(--shade); padding: 2px 5px; border-radius: 5px }
pre { background: var(--shade); border: 1px solid var(--line); border-radius: 8px; padding: 14px 16px; overflow-x: auto } pre code { background: none; padding: 0 }
.table { overflow-x: auto; margin: 16px 0 } table { border-collapse: collapse; font-size: 14.5px } th, td { border: 1px solid var(--line); padding: 6px 10px; text-align: left; vertical-align: top; overflow-wrap: normal }
th { background: var(--shade) } img { max-width: 100%; height: auto; border-radius: 8px }
.hljs-keyword, .hljs-built_in { color: var(--keyword) } .hljs-string { color: var(--string) } .hljs-comment { color: var(--comment) } .hljs-title, .hljs-section { color: var(--title) } .hljs-number, .hljs-literal, .hljs-attr { color: var(--number) }
@media (max-width: 1150px) { .frame { grid-template-columns: 240px minmax(0, 1fr) } nav.contents { display: none } }
@media (max-width: 760px) { .frame { display: block; padding: 0 16px } header { padding: 12px 16px } nav.guides { position: static; max-height: none; padding: 8px 0; border-bottom: 1px solid var(--line) }
  summary { display: block; cursor: pointer; padding: 8px 0; font-size: 16px } nav li a { padding: 8px 0 } .anchor { display: none } h1 { font-size: 26px } }
`

// Open beside the page, closed above it: the one thing that a style sheet cannot say.
const script = `const menu = document.querySelector("nav.guides details"), narrow = matchMedia("(max-width: 760px)");
const fit = () => { menu.open = !narrow.matches }; narrow.addEventListener("change", fit); fit();
const current = document.querySelector("nav.guides [aria-current]"); if (current && !narrow.matches) current.scrollIntoView({ block: "center" }); scrollTo(0, location.hash ? scrollY : 0)`

const page = ({ headings, here, html, title }) => {
  const to = (target) => posix.relative(posix.dirname(here), target)
  const reference = api.length > 0 ? `<a href="${to("api/index.html")}">API</a>` : ""
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escape(title === "effect-tinker" ? title : `${title} · effect-tinker`)}</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="${to("style.css")}">
</head>
<body data-root="${to("index.html").slice(0, -"index.html".length)}">
<script>document.documentElement.dataset.theme = localStorage.getItem("theme") ?? ""</script>
<a class="skip" href="#content">Skip to the text</a>
<header><a class="name" href="${to("index.html")}">effect-tinker</a><a href="${
    to("getting-started.html")
  }">Get started</a>${reference}<a href="${home}">Source</a>
<div class="tools" role="search"><input type="search" placeholder="Search   /" aria-label="Search the guides and the reference" autocomplete="off"><ul class="found" aria-label="Found"></ul><button type="button" class="theme">Theme</button></div></header>
<div class="frame">
<nav class="guides" aria-label="Guides"><details open><summary>☰ Guides and packages</summary>
${sidebar(here)}
</details></nav>
<main id="content">
${html}</main>
<nav class="contents" aria-label="On this page">${
    headings.length < 2 ?
      "" :
      `<h2>On this page</h2><ul>${
        headings.map(({ id, text }) => `<li><a href="#${id}">${text}</a></li>`).join("")
      }</ul>`
  }</nav>
</div>
<script>${script}</script>
<script src="${to("site.js")}" defer></script>
</body>
</html>
`
}

rmSync(out, { recursive: true, force: true })
for (const content of pages.values()) {
  mkdirSync(dirname(`${out}/${content.here}`), { recursive: true })
  writeFileSync(`${out}/${content.here}`, page(content))
}
writeFileSync(`${out}/style.css`, style)

const plain = (html) =>
  html.replaceAll(/<a class="anchor"[\s\S]*?<\/a>/g, "").replaceAll(/<[^>]*>/g, " ").replaceAll("&lt;", "<").replaceAll(
    "&gt;",
    ">"
  ).replaceAll("&quot;", "\"").replaceAll(/&#(39|x27);/g, "'").replaceAll("&amp;", "&").replaceAll(/\s+/g, " ").trim()

/** Sections for the search: the page, its heading and address, and what it says. A script, because pages opened as files fetch nothing. */
const index = [...pages.values()].flatMap(({ here, html, title }) =>
  html.split(/(?=<h[1-3] id=)/).flatMap((section) => {
    const [, id, heading] = /^<h[1-3] id="([^"]*)">([\s\S]*?)<\/h[1-3]>/.exec(section) ?? []
    const text = plain(section.replace(/^<h[\s\S]*?<\/h[1-3]>/, ""))
    return id === undefined && text === ""
      ? []
      : [[
        title,
        heading === undefined ? title : plain(heading),
        id === undefined ? here : `${here}#${id}`,
        text.slice(0, 1200)
      ]]
  })
)
writeFileSync(`${out}/search.js`, `globalThis.searchIndex = ${JSON.stringify(index).replaceAll("<", "\\u003c")}\n`)
cpSync(`${root}.ci/site/page.js`, `${out}/site.js`)
cpSync(`${root}docs/assets`, `${out}/assets`, { recursive: true })
cpSync(`${root}llms.txt`, `${out}/llms.txt`)
for (const problem of problems) process.stderr.write(`${problem}\n`)
const links = [...pages.values()].reduce((sum, { links }) => sum + links.length, 0)
process.stdout.write(
  `${pages.size} pages, ${links} links between them, ${problems.length} broken: docs/site/index.html\n`
)
process.exit(problems.length === 0 ? 0 : 1)
