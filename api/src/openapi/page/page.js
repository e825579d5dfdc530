// Draws the document of the port. An operation is drawn when it is opened, and a schema is followed when somebody looks
// at it, so that the page is there as soon as the document is read.
"use strict";

const METHODS = ["post", "get", "put", "patch", "delete"];
// Longer answers are shown up to here.
const LONGEST_SHOWN = 262144;

let doc;

/** An element with attributes and children; a text is a child as it is, never markup. */
function make(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== undefined && value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== undefined && child !== null && child !== ""));
  return element;
}

/** Paragraphs, and code between back-quotes. */
function prose(text) {
  return (text ?? "").split("\n\n").filter(Boolean).map((part) => make("p", {}, inline(part)));
}

function inline(text) {
  return (text ?? "").split("`").map((part, index) => (index % 2 ? make("code", {}, part) : part));
}

/** What a reference of the document leads to; what stands beside the reference holds in its place. */
function follow(part) {
  if (!part?.$ref) return part ?? {};
  const { $ref, ...beside } = part;
  let target = doc;
  for (const name of $ref.slice(2).split("/")) target = target?.[name.replace(/~1/g, "/").replace(/~0/g, "~")];
  return { ...follow(target), ...beside };
}

const named = (part) => part?.$ref?.split("/").pop();

const pretty = (value) => JSON.stringify(value, null, 2);

// Schemas.

function kindOf(schema) {
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.enum) return schema.enum.map((word) => JSON.stringify(word)).join(" | ");
  const kinds = [schema.type ?? []].flat();
  const kind = kinds.map((name) => (name === "array" ? `list of ${kindOf(follow(schema.items)) || "anything"}` : name));
  return kind.join(" or ") + (schema.format ? ` (${schema.format})` : "");
}

function boundsOf(schema) {
  const words = {
    minLength: "at least # characters", maxLength: "at most # characters", minItems: "at least # items",
    maxItems: "at most # items", minimum: "from #", maximum: "up to #", maxProperties: "at most # fields",
    pattern: "fits #",
  };
  const said = Object.entries(words).filter(([name]) => schema[name] !== undefined);
  return said.map(([name, text]) => text.replace("#", schema[name])).join(", ");
}

/** What is inside a schema: the fields of an object, the items of a list, the shapes to choose from. */
function insideOf(schema) {
  const shapes = schema.oneOf ?? schema.anyOf;
  if (shapes) return shapes.map((shape) => schemaView(shapeName(shape), shape));
  if (schema.allOf) return schema.allOf.flatMap((part) => insideOf(follow(part)));
  if (schema.properties) {
    const required = new Set(schema.required ?? []);
    return Object.entries(schema.properties).map(([name, field]) => schemaView(name, field, required.has(name)));
  }
  if (schema.items) {
    const items = follow(schema.items);
    return items.properties || items.oneOf || items.anyOf || items.items ? insideOf(items) : [];
  }
  if (schema.additionalProperties?.type) return [schemaView("any name", schema.additionalProperties)];
  return [];
}

function shapeName(shape) {
  const whole = follow(shape);
  const type = whole.properties?.type;
  return named(shape) ?? whole.title ?? type?.const ?? (kindOf(whole) || "one shape");
}

function schemaView(name, part, required) {
  const schema = follow(part);
  const kind = [named(part), kindOf(schema)].filter(Boolean).join(": ");
  const view = make("div", { class: "field" },
    make("span", { class: "name" }, name), " ",
    make("small", {}, [kind, required ? "required" : "", boundsOf(schema)].filter(Boolean).join(" · ")),
    schema.description ? make("div", {}, inline(schema.description)) : "");
  const nested = schema.oneOf || schema.anyOf || schema.allOf || schema.properties || schema.items || schema.additionalProperties?.type;
  if (nested) view.append(later("Fields", () => insideOf(schema)));
  return view;
}

/** Something that is drawn when it is opened. */
function later(title, draw, open) {
  const details = make("details", {}, make("summary", {}, title));
  const fill = () => {
    if (details.open && details.children.length === 1) {
      const drawn = draw();
      details.append(...(drawn.length ? drawn : [make("small", {}, "Nothing more is said of it.")]));
    }
  };
  details.addEventListener("toggle", fill);
  if (open) {
    details.open = true;
    fill();
  }
  return details;
}

// Operations.

function callView(method, path, operation, isEvent) {
  const id = operation.operationId;
  const body = make("div");
  const view = make("details", { class: "call", id },
    make("summary", {},
      make("span", { class: `method ${isEvent ? "event" : method}` }, isEvent ? "EVENT" : method.toUpperCase()),
      make("span", { class: "path" }, path),
      make("span", { class: "says" }, inline(operation.summary))),
    body);
  view.dataset.words = `${method} ${path} ${operation.summary} ${id} ${(operation.tags ?? []).join(" ")}`.toLowerCase();
  view.addEventListener("toggle", () => {
    if (!view.open) return;
    if (!body.hasChildNodes()) body.append(...(isEvent ? eventParts(operation) : callParts(method, path, operation)));
    history.replaceState(null, "", `#${id}`);
  });
  return view;
}

function eventParts(operation) {
  const content = operation.requestBody.content["application/json"];
  const headers = operation.parameters.map(follow);
  return [
    make("h3", {}, "What is sent"),
    make("pre", {}, pretty(Object.values(content.examples)[0].value)),
    later("Fields", () => insideOf(follow(content.schema))),
    later("Headers", () => headers.map((header) => schemaView(header.name, { ...header.schema, description: header.description }, header.required))),
    make("p", {}, inline(Object.values(operation.responses)[0].description)),
  ];
}

function callParts(method, path, operation) {
  const form = make("form", { onsubmit: (event) => { event.preventDefault(); send(); } });
  const inputs = [];
  for (const part of operation.parameters ?? []) {
    const parameter = follow(part);
    const input = inputOf(parameter);
    inputs.push({ parameter, input });
    form.append(make("div", { class: "row" },
      make("label", { for: input.id }, make("strong", {}, parameter.name), " ",
        make("small", {}, [parameter.in, parameter.required ? "required" : "", kindOf(follow(parameter.schema))].filter(Boolean).join(" · "))),
      make("div", {}, input, parameter.description ?? follow(parameter.schema).description ? make("div", {}, make("small", {}, inline(parameter.description ?? follow(parameter.schema).description))) : "")));
  }
  if (inputs.length) form.prepend(make("h3", {}, "Parameters"));
  const written = operation.requestBody ? bodyOf(operation, form) : undefined;
  // How it ended is said to those who listen; the whole of an answer would be read to them for minutes.
  const said = make("p", { role: "status" });
  const answer = make("div");
  const sending = make("button", { class: "main" }, "Send");
  const stopping = make("button", { type: "button", hidden: true }, "Stop");
  form.append(make("div", { class: "bar" }, sending, stopping, make("small", {}, needsKey(operation) ? "Asked with the key or token at the top." : "Asked without a key.")), said, answer);

  async function send() {
    const asked = request(method, path, inputs, written, needsKey(operation));
    const stop = new AbortController();
    sending.disabled = true;
    stopping.hidden = false;
    stopping.onclick = () => stop.abort();
    said.textContent = "Asked.";
    answer.replaceChildren(make("pre", {}, asked.curl));
    const began = performance.now();
    try {
      const response = await fetch(asked.url, { ...asked.init, signal: stop.signal });
      said.textContent = `${response.status} ${response.statusText} after ${Math.round(performance.now() - began)} ms`;
      await show(response, answer);
    } catch (error) {
      said.textContent = error.name === "AbortError" ? "Stopped." : `No answer: ${error.message}`;
    }
    sending.disabled = false;
    stopping.hidden = true;
  }

  const answers = Object.entries(operation.responses).map(([status, part]) => {
    const response = follow(part);
    return later(`${status} ${response.description}`, () => Object.entries(response.content ?? {}).flatMap(([type, content]) => [
      make("small", {}, type), ...insideOf(follow(content.schema)),
      ...Object.entries(content.examples ?? {}).slice(0, 1).map(([, example]) => make("pre", {}, pretty(example.value))),
    ]));
  });
  return [...prose(operation.description), form, make("h3", {}, "Answers"), ...answers];
}

const needsKey = (operation) => (operation.security ?? doc.security ?? []).length > 0;

let count = 0;

function inputOf(parameter) {
  const schema = follow(parameter.schema);
  const id = `input-${++count}`;
  const choices = schema.enum ?? (schema.type === "boolean" ? [true, false] : undefined);
  if (!choices) return make("input", { id, required: parameter.required, placeholder: schema.default });
  return make("select", { id }, make("option", { value: "" }, ""), choices.map((choice) => make("option", {}, String(choice))));
}

/** The part of the form for the body; gives a function that reads it. */
function bodyOf(operation, form) {
  const contents = Object.entries(operation.requestBody.content);
  form.append(make("h3", {}, "Body"));
  const parts = contents.map(([type, content]) => (type === "application/json" ? jsonBody(type, content) : type.startsWith("multipart/") ? formBody(type, content) : fileBody(type)));
  const place = make("div", {}, parts[0].view);
  let chosen = 0;
  if (parts.length > 1) {
    const pick = make("select", { "aria-label": "Type of the body", onchange: () => { chosen = pick.selectedIndex; place.replaceChildren(parts[chosen].view); } },
      contents.map(([type]) => make("option", {}, type)));
    form.append(make("div", { class: "bar" }, pick));
  }
  form.append(place);
  return () => parts[chosen].read();
}

function jsonBody(type, content) {
  const examples = Object.entries(content.examples ?? {});
  const first = content["x-first-example"];
  examples.sort(([one], [other]) => (other === first) - (one === first));
  const text = make("textarea", { "aria-label": "JSON", spellcheck: "false" });
  text.value = examples.length ? pretty(examples[0][1].value) : "{}";
  const bar = make("div", { class: "bar" });
  if (examples.length > 1) {
    const pick = make("select", { "aria-label": "Example", onchange: () => { text.value = pretty(examples[pick.selectedIndex][1].value); } },
      examples.map(([name]) => make("option", {}, name)));
    bar.append("Example", pick);
  }
  const view = make("div", {}, bar, text, later("Fields", () => insideOf(follow(content.schema))));
  return { view, read: () => ({ type, body: text.value, shown: `-H 'Content-Type: ${type}' -d ${quoted(text.value)}` }) };
}

function formBody(type, content) {
  const fields = Object.entries(follow(content.schema).properties ?? {}).map(([name, part]) => {
    const isFile = follow(part).format === "binary";
    return { name, isFile, input: make("input", { type: isFile ? "file" : "text", "aria-label": name }) };
  });
  const view = make("div", {}, fields.map(({ name, input }) => make("div", { class: "row" }, make("strong", {}, name), input)));
  const read = () => {
    const body = new FormData();
    const shown = [];
    for (const { name, isFile, input } of fields) {
      const value = isFile ? input.files[0] : input.value;
      if (!value) continue;
      body.append(name, value);
      shown.push(`-F ${quoted(`${name}=${isFile ? `@${value.name}` : value}`)}`);
    }
    return { body, shown: shown.join(" ") };
  };
  return { view, read };
}

function fileBody(type) {
  const input = make("input", { type: "file", "aria-label": "File" });
  const read = () => ({ type: input.files[0]?.type || type.replace("*", "octet-stream"), body: input.files[0], shown: `--data-binary ${quoted(`@${input.files[0]?.name ?? "FILE"}`)}` });
  return { view: make("div", {}, input), read };
}

const quoted = (text) => `'${text.replace(/'/g, "'\\''")}'`;

function request(method, path, inputs, written, withKey) {
  const query = new URLSearchParams();
  const headers = {};
  let url = path;
  for (const { parameter, input } of inputs) {
    const value = input.value.trim();
    if (parameter.in === "path") url = url.replace(`{${parameter.name}}`, encodeURIComponent(value));
    else if (!value) continue;
    else if (parameter.in === "header") headers[parameter.name] = value;
    else if (parameter.explode && follow(parameter.schema).type === "array") value.split(",").forEach((one) => query.append(parameter.name, one.trim()));
    else query.append(parameter.name, value);
  }
  // Beside the page, so that it works behind a prefix too.
  const place = new URL(url.slice(1), new URL(".", document.baseURI));
  place.search = query;
  const body = written?.();
  if (body?.type) headers["Content-Type"] = body.type;
  const shown = Object.entries(headers).filter(([name]) => name !== "Content-Type").map(([name, value]) => `-H ${quoted(`${name}: ${value}`)}`);
  if (withKey) {
    headers.Authorization = `Bearer ${document.getElementById("key").value.trim()}`;
    shown.unshift('-H "Authorization: Bearer $KEY"');
  }
  const curl = ["curl", method === "get" ? "" : `-X ${method.toUpperCase()}`, quoted(place.href), ...shown, body?.shown ?? ""].filter(Boolean).join(" ");
  return { url: place, init: { method: method.toUpperCase(), headers, body: body?.body }, curl };
}

async function show(response, answer) {
  const headers = [...response.headers].map(([name, value]) => `${name}: ${value}`).join("\n");
  answer.append(later("Headers", () => [make("pre", {}, headers)]));
  const type = response.headers.get("content-type") ?? "";
  if (/^(image|audio|video)\/|octet-stream/.test(type)) {
    const url = URL.createObjectURL(await response.blob());
    answer.append(type.startsWith("image/") ? make("img", { src: url, alt: "The answer as a picture" }) : make("a", { href: url, download: "answer" }, "Save the answer"));
    return;
  }
  const place = make("pre", {});
  answer.append(place);
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (let part; reader && !(part = await reader.read()).done;) {
    if (text.length < LONGEST_SHOWN) text += part.value;
    place.textContent = text.slice(0, LONGEST_SHOWN);
  }
  if (type.startsWith("application/json")) {
    try {
      place.textContent = pretty(JSON.parse(text)).slice(0, LONGEST_SHOWN);
    } catch {
      // It was cut, or is none: it stays as it came.
    }
  }
}

// The page.

function draw(page) {
  const sections = new Map(doc.tags.map((tag) => [tag.name, []]));
  for (const [path, methods] of Object.entries(doc.paths)) {
    for (const method of METHODS) {
      const operation = methods[method];
      if (operation) sections.get(operation.tags[0])?.push(callView(method, path, operation));
    }
  }
  const events = Object.entries(doc.webhooks ?? {}).map(([name, { post }]) => callView("post", name, post, true));
  const drawn = [...sections].map(([name, views]) => section(name, views));
  if (events.length) drawn.push(section("What webhooks are sent", events));
  page.replaceChildren(...prose(doc.info.description), make("p", { id: "found", role: "status" }), ...drawn);
}

const section = (name, views) => make("section", {}, make("h2", {}, name), views);

function find(page, text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  for (const view of page.querySelectorAll("details.call")) view.hidden = !words.every((word) => view.dataset.words.includes(word));
  for (const part of page.querySelectorAll("section")) part.hidden = !part.querySelector("details.call:not([hidden])");
  document.getElementById("found").textContent = page.querySelector("details.call:not([hidden])") ? "" : "No call and no event fits.";
}

function openNamed() {
  const view = document.getElementById(decodeURIComponent(location.hash).split("/").pop().replace("#", ""));
  if (view?.tagName !== "DETAILS") return;
  view.open = true;
  view.scrollIntoView();
}

async function begin() {
  const page = document.getElementById("page");
  try {
    const response = await fetch("openapi.json");
    if (!response.ok) throw new Error(`${response.status} ${response.statusText}`);
    doc = await response.json();
  } catch (error) {
    document.getElementById("state").textContent = `The document could not be read: ${error.message}. Load the page again.`;
    return;
  }
  document.getElementById("title").textContent = document.title = doc.info.title;
  draw(page);
  document.getElementById("find").addEventListener("input", (event) => find(page, event.target.value));
  addEventListener("hashchange", openNamed);
  openNamed();
}

begin();
