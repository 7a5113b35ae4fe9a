"use strict";

const at = id => document.getElementById(id);
const POLL_MS = 1000;

const STATES = { starting: "Starting", live: "Live", veiled: "Veiled", lost: "Camera lost" };
const RANGES = {
  shape: ["Shape", "How far your face takes on the photo’s proportions"],
  smoothing: ["Smoothing", "From following at once to holding stillest"],
  morph: ["Morph", "How far a DFM morphs to its person"],
};
const CHOICES = {
  eyes: ["Eyes", { mixed: "Mixed", live: "Yours", photo: "Photo" }],
  mouth: ["Mouth", { live: "Yours", photo: "Photo" }],
  occluders: ["Hands, masks", { live: "In front", cover: "Covered" }],
  mask: ["Mask", { auto: "Automatic", oval: "Oval", ellipse: "Ellipse", box: "Box" }],
  colour: ["Colour", { match: "Match", poisson: "Poisson", none: "As made" }],
  boost: ["Detail", { 1: "1×", 2: "2×", 4: "4×" }],
};
const OF_MESH = ["shape", "eyes", "mouth", "occluders"], OF_NETWORKS = ["mask", "colour", "boost", "morph"];

let state = null, csrf = "", lost = true;
const held = new Map();  // What a person is just setting: it does not jump back to what is still on.

// -- requests ---------------------------------------------------------------------------------------------

async function ask(method, path, body, type) {
  const headers = method === "GET" ? {} : { "X-CSRF-Token": csrf, "Content-Type": type || "application/json" };
  const answer = await fetch(path, { method, headers, body: type ? body : body && JSON.stringify(body), cache: "no-store" });
  const said = await answer.json();
  if (!answer.ok) throw new Refused([said.error, said.fix].filter(Boolean).join(" "));
  return said;
}

class Refused extends Error {}

async function attempt(problem, job) {
  at(problem).hidden = true;
  try {
    await job();
  } catch (error) {
    at(problem).textContent = error instanceof Refused ? error.message : "doppelcam does not answer.";
    at(problem).hidden = false;
  }
  await refresh();
}

function change(values, problem = "looks-problem") {
  for (const [name, value] of Object.entries(values)) held.set(name, value);
  return attempt(problem, () => ask("PATCH", "/api/settings", values))
    .finally(() => { for (const [name, value] of Object.entries(values)) if (held.get(name) === value) held.delete(name); });
}

// -- pictures ---------------------------------------------------------------------------------------------

// What the camera sees is Motion JPEG always: two videos would take more of a core than a page may.
const pictures = { after: new LivePicture("after"), before: new LivePicture("before") };

function showBefore(on) {
  if (on === !at("before-frame").hidden) return;
  at("before-frame").hidden = !on;
  at("frames").classList.toggle("two", on);
  if (on) pictures.before.watch(); else pictures.before.leave();
}

document.addEventListener("visibilitychange", () => {
  // Nobody looks at a hidden page, so nothing need be encoded for it.
  for (const picture of Object.values(pictures)) picture.leave();
  if (document.hidden || lost) return;
  pictures.after.watch(state.webrtc);
  if (!at("before-frame").hidden) pictures.before.watch();
});

// -- the veil ---------------------------------------------------------------------------------------------

async function veil(on) {
  at("veil").setAttribute("aria-pressed", on);
  await attempt("looks-problem", () => ask("POST", "/api/veil", { on }));
}

at("veil").addEventListener("click", () => veil(at("veil").getAttribute("aria-pressed") !== "true"));
document.addEventListener("keydown", event => {
  const typing = event.target.matches("input:not([type=range], [type=checkbox], [type=radio]), select, textarea");
  if (event.key.toLowerCase() !== "v" || event.ctrlKey || event.metaKey || event.altKey || event.repeat || typing) return;
  // The plain key always veils: who presses it twice in a hurry must not be shown.
  veil(!event.shiftKey);
});

// -- faces ------------------------------------------------------------------------------------------------

function add(file) {
  return attempt("face-problem", async () => {
    const face = await ask("POST", "/api/faces?name=" + encodeURIComponent(file.name || "photo"), file, "application/octet-stream");
    if (face.id) await ask("PATCH", "/api/settings", { face: face.id });
  });
}

at("file").addEventListener("change", () => { if (at("file").files[0]) add(at("file").files[0]); at("file").value = ""; });
let inside = 0;
document.addEventListener("dragenter", event => { event.preventDefault(); inside++; at("drop").classList.add("over"); });
document.addEventListener("dragleave", () => { if (--inside <= 0) { inside = 0; at("drop").classList.remove("over"); } });
document.addEventListener("dragover", event => event.preventDefault());
document.addEventListener("drop", event => {
  event.preventDefault();
  inside = 0;
  at("drop").classList.remove("over");
  if (event.dataTransfer.files[0]) add(event.dataTransfer.files[0]);
});
document.addEventListener("paste", event => { if (event.clipboardData.files[0]) add(event.clipboardData.files[0]); });

function make(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

function once(element, key, build) {
  // Built anew only when something has changed: focus and what is being typed stay.
  const text = JSON.stringify(key);
  if (element.dataset.key === text) return;
  element.dataset.key = text;
  element.replaceChildren(...build());
}

function showFaces() {
  once(at("faces"), state.faces, () => state.faces.map(face => {
    const button = make("button", { class: "face", "data-id": face.id, title: face.note || face.name },
      make("img", { src: face.thumbnail, alt: "" }), make("span", {}, face.name));
    button.addEventListener("click", () => change({ face: face.id }, "face-problem"));
    const item = make("li", {}, button);
    if (face.own) {
      const away = make("button", { class: "away", "aria-label": `Take ${face.name} away` }, "×");
      away.addEventListener("click", () => attempt("face-problem", () => ask("DELETE", `/api/faces/${face.id}`)));
      item.append(away);
    }
    return item;
  }));
  const on = held.get("face") || state.settings.face;
  for (const button of at("faces").querySelectorAll(".face")) button.setAttribute("aria-pressed", button.dataset.id === on);
}

// -- looks ------------------------------------------------------------------------------------------------

function later(ms, job) {
  let timer;
  return (...values) => { clearTimeout(timer); timer = setTimeout(job, ms, ...values); };
}

function range(name) {
  const [title, about] = RANGES[name];
  const input = make("input", { type: "range", id: name, min: 0, max: 1, step: 0.05, title: about });
  const output = make("output", { for: name });
  const send = later(120, value => change({ [name]: value }));
  input.addEventListener("input", () => {
    output.textContent = percent(input.valueAsNumber);
    held.set(name, input.valueAsNumber);
    send(input.valueAsNumber);
  });
  return make("label", { class: "row", "data-name": name }, make("span", {}, title), make("span", { class: "value" }, input, output));
}

function choice(name) {
  const [title, words] = CHOICES[name];
  const options = state.choices[name].map(word => {
    const input = make("input", { type: "radio", name, value: word });
    input.addEventListener("change", () => change({ [name]: name === "boost" ? Number(word) : word }));
    return make("label", {}, input, make("span", {}, words[word] || word));
  });
  return make("fieldset", { class: "row", "data-name": name }, make("legend", {}, title), make("div", { class: "choice" }, ...options));
}

const percent = share => `${Math.round(share * 100)} %`;

function showLooks() {
  const values = { ...state.settings, ...Object.fromEntries(held) };
  const { engine } = state.settings;
  once(at("engine"), state.choices.engine, () => state.choices.engine.map(name => make("option", { value: name }, name)));
  at("engine").value = values.engine;
  const names = [...(engine === "mesh" ? OF_MESH : engine === "portrait" ? [] : OF_NETWORKS), "smoothing"];
  once(at("controls"), [names, state.choices], () => names.map(name => name in RANGES ? range(name) : choice(name)));
  for (const name of names) {
    if (name in RANGES) {
      at(name).value = values[name];
      at(name).closest(".row").querySelector("output").textContent = percent(values[name]);
    } else {
      const input = at("controls").querySelector(`input[name="${name}"][value="${values[name]}"]`);
      if (input) input.checked = true;
    }
  }
  at("label").checked = values.label;
}

at("engine").addEventListener("change", () => change({ engine: at("engine").value }));
at("label").addEventListener("change", () => change({ label: at("label").checked }));
at("before-on").addEventListener("change", () =>
  attempt("looks-problem", () => ask("POST", "/api/before", { on: at("before-on").checked })));

// -- figures ----------------------------------------------------------------------------------------------

const ms = value => value.toFixed(value < 10 ? 2 : 1);
const words = { capture: "Capture", track: "Track", swap: "Swap", blend: "Blend", output: "Output" };

function stageRow(name, stage) {
  const tr = document.createElement("tr");
  const share = Math.min(1, stage.p50_ms / Math.max(stage.budget_ms, 0.01));
  const bar = make("i");
  bar.style.width = `${100 * share}%`;
  const gauge = make("td", { class: "gauge" + (stage.p50_ms > stage.budget_ms ? " over-budget" : "") }, make("div", {}, bar));
  tr.append(make("th", { scope: "row" }, words[name] || name), gauge);
  for (const [key, kind] of [["p50_ms", ""], ["p95_ms", ""], ["p99_ms", ""], ["max_ms", "wide"], ["budget_ms", "soft"]]) {
    const late = key !== "budget_ms" && key !== "max_ms" && stage[key] > stage.budget_ms;
    tr.append(make("td", { class: kind + (late ? " over" : "") }, stage.n || key === "budget_ms" ? ms(stage[key]) : "–"));
  }
  tr.append(make("td", { class: stage.over ? "over" : "soft" }, stage.over.toLocaleString()));
  return tr;
}

function showFigures() {
  const { stats } = state, age = stats.frame_age;
  at("age").textContent = age.n ? ms(age.p50_ms) : "–";
  at("age95").textContent = age.n ? ms(age.p95_ms) : "–";
  at("fps").textContent = stats.fps.sent ? stats.fps.sent.toFixed(1) : "–";
  at("dropped").textContent = (stats.counts.dropped || 0).toLocaleString();
  at("stages").replaceChildren(...Object.entries(stats.stages).map(([name, stage]) => stageRow(name, stage)));
  once(at("providers"), state.providers, () => Object.entries(state.providers).map(([name, nodes]) =>
    make("li", {}, `${name}: ` + Object.entries(nodes).map(([provider, n]) => `${provider} ${n} nodes`).join(" + "))));
  at("rung").hidden = !state.rung;
  at("rung").textContent = state.rung && `Frames take too long: ${state.rung}`;
}

function showOutputs() {
  once(at("outputs"), state.outputs.map(({ id, name, problem }) => [id, name, problem]), () => state.outputs.map(output => {
    const input = make("input", { type: "checkbox", role: "switch", "data-id": output.id });
    input.addEventListener("change", () =>
      attempt("looks-problem", () => ask("PATCH", `/api/outputs/${output.id}`, { on: input.checked })));
    const item = make("li", {}, make("label", { class: "switch" }, input, make("span"), output.name));
    if (output.problem) item.append(make("p", {}, output.problem));
    return item;
  }));
  for (const output of state.outputs) at("outputs").querySelector(`[data-id="${output.id}"]`).checked = output.on;
}

// -- all of it --------------------------------------------------------------------------------------------

function show() {
  at("state").dataset.state = state.state;
  at("state").textContent = STATES[state.state] + (state.state === "veiled" && !state.veil ? ": no face that can be trusted" : "");
  const [width, height] = state.source.size;
  at("source").textContent = `${state.source.name} · ${width} × ${height}`;
  for (const shown of document.querySelectorAll(".frame img, .frame video")) if (width) shown.style.aspectRatio = `${width} / ${height}`;
  at("busy").hidden = !state.busy;
  at("busy").textContent = state.busy && `Preparing: ${state.busy}`;
  at("veil").setAttribute("aria-pressed", state.veil);
  at("veil").querySelector(".veil-words").textContent = state.veil ? "Veiled. Show me again" : "Veil now";
  at("veil-key").textContent = state.veil ? "⇧ V" : "V";
  at("before-on").checked = state.before;
  showBefore(state.before);
  showFaces();
  showLooks();
  showFigures();
  showOutputs();
}

async function refresh() {
  try {
    state = await ask("GET", "/api/state");
    csrf = state.csrf;
    if (lost) pictures.after.watch(state.webrtc);
    lost = false;
    show();
  } catch (error) {
    lost = true;
    at("state").dataset.state = "lost";
    at("state").textContent = "No answer";
  }
  at("lost").hidden = !lost;
}

async function poll() {
  if (!document.hidden) await refresh();
  setTimeout(poll, POLL_MS);
}

poll();
