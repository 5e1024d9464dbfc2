// Opens pages in a headless Chromium and says what it saw. Standard input: JSON
// {"executable": path or null, "looks": [{"file", "width", "height", "scheme", "print", "screenshot"}]}.
// Standard output: a JSON list, one answer a look.
import { spawnSync } from "node:child_process";
import { readFileSync, mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { pathToFileURL, fileURLToPath } from "node:url";
import packaged, { inflate } from "@sparticuz/chromium";
import { chromium } from "playwright-core";

const ARGUMENTS = [
  "--no-sandbox", "--headless", "--disable-gpu", "--disable-quic", "--no-first-run",
  "--disable-background-networking", "--disable-component-update", "--disable-sync",
  "--disable-dev-shm-usage", // a container's /dev/shm may be too small for a page
];

// The package carries its browser compressed, and the few shared libraries that a bare machine lacks.
async function browser(given) {
  const executablePath = given ?? (await packaged.executablePath());
  const env = { ...process.env };
  if (!given && spawnSync("ldd", [executablePath], { encoding: "utf8" }).stdout?.includes("not found")) {
    const here = dirname(fileURLToPath(import.meta.resolve("@sparticuz/chromium")));
    const libraries = await inflate(join(here, "..", "bin", "al2023.tar.br"));
    env.LD_LIBRARY_PATH = join(libraries, "lib");
  }
  return chromium.launch({ executablePath, headless: true, args: ARGUMENTS, env });
}

// On a machine that is busy the browser may have no frame yet, and says "Unable to capture".
async function capture(page, options) {
  for (let tries = 1; ; tries += 1) {
    try {
      await page.screenshot(options);
      return;
    } catch (error) {
      if (tries === 5 || !String(error).includes("Unable to capture")) throw error;
      await page.waitForTimeout(500 * tries);
    }
  }
}

// Everything that a person could see, and whether it lies inside the page.
function measure() {
  const wide = document.documentElement.clientWidth;
  const outside = [];
  for (const element of document.body.querySelectorAll("*")) {
    const box = element.getBoundingClientRect();
    const style = getComputedStyle(element);
    if (!box.width || !box.height || style.visibility === "hidden") continue;
    if (element.closest("svg") && element.tagName !== "svg") continue;
    if (element.closest(".chart") && !element.classList.contains("chart")) continue;
    if (element.closest("thead") && getComputedStyle(element.closest("thead")).position === "absolute") continue;
    if (box.left < -0.5 || box.right > wide + 0.5) {
      outside.push(`${element.tagName}.${element.className}: ${box.left} to ${box.right} of ${wide}`);
    }
  }
  const charts = {};
  for (const place of document.querySelectorAll("[data-chart]")) {
    const canvas = place.querySelector("canvas");
    if (!canvas) continue; // the page's own error says why
    const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
    const colours = new Set();
    for (let i = 0; i < pixels.length; i += 4) {
      if (pixels[i + 3]) colours.add((pixels[i] << 16) | (pixels[i + 1] << 8) | pixels[i + 2]);
    }
    charts[place.dataset.chart] = {
      data: place.plot.data, colours: colours.size, width: place.clientWidth,
      drawn: canvas.getBoundingClientRect().width, label: place.getAttribute("aria-label"),
    };
  }
  const figures = {};
  for (const element of document.querySelectorAll("[data-figure]")) {
    figures[element.dataset.figure] = element.textContent;
  }
  const unnamed = [...document.querySelectorAll("[role=img], section, details > summary, a")]
    .filter((e) => !(e.getAttribute("aria-label") || e.getAttribute("aria-labelledby") || e.textContent.trim()))
    .map((e) => e.outerHTML.slice(0, 80));
  return {
    scroll: [document.documentElement.scrollWidth, wide], outside, charts, figures, unnamed,
    ran: window.ran ?? null, title: document.title,
    ground: getComputedStyle(document.body).backgroundColor,
    markup: document.querySelectorAll("main script, main img, main iframe").length,
    height: document.documentElement.scrollHeight,
  };
}

const asked = JSON.parse(readFileSync(0, "utf8"));
process.env.HOME = mkdtempSync(join(tmpdir(), "home-"));
const opened = await browser(asked.executable);
const answers = [];
try {
  for (const look of asked.looks) {
    const context = await opened.newContext({
      viewport: { width: look.width, height: look.height }, colorScheme: look.scheme ?? "light",
      locale: "en-US", // a bare machine has none, and Chromium then makes up one that no Intl knows
    });
    const page = await context.newPage();
    const said = [], requests = [], url = pathToFileURL(look.file).href;
    page.on("console", (message) => said.push(`${message.type()}: ${message.text()}`));
    page.on("pageerror", (error) => said.push(`error: ${error.message}`));
    page.on("request", (request) => { if (request.url() !== url) requests.push(request.url()); });
    await page.goto(url, { waitUntil: "load" });
    if (look.open) await page.evaluate(() => document.querySelectorAll("details").forEach((d) => (d.open = true)));
    if (look.print) await page.emulateMedia({ media: "print" });
    if (look.evaluate) await page.evaluate(look.evaluate);
    // A request that the page's script makes late is seen before the next look.
    await page.waitForTimeout(50);
    const seen = await page.evaluate(measure);
    if (look.screenshot) await capture(page, { path: look.screenshot, fullPage: look.full ?? true });
    answers.push({ ...seen, said, requests: requests.filter((r) => !r.startsWith("data:")) });
    await context.close();
  }
} finally {
  await opened.close();
}
console.log(JSON.stringify(answers));
