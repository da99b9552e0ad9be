// Shows the SVG that Python drew. A redraw patches the page instead of replacing it, so
// nothing flickers, the focus stays where it was, and a bar can be dragged while it changes.

const ARROWS = { ArrowUp: 1, ArrowRight: 1, ArrowDown: -1, ArrowLeft: -1 };

function render({ model, el }) {
  const figure = document.createElement("figure");
  const host = document.createElement("div");
  const caption = document.createElement("figcaption");
  figure.className = "sd-figure sd-plot";
  figure.append(host, caption);
  el.append(figure);

  const draw = () => {
    figure.style.maxWidth = `${Math.round(model.get("width") * model.get("growth"))}px`;
    caption.textContent = model.get("caption");
    patch(host, model.get("svg"));
    drags.settle();
  };
  const drags = allowDragging(host, (key, bar, value) => {
    model.set("dragged", { key, bar, value });
    model.save_changes();
  });
  const unpick = allowPicking(host, (picked) => {
    model.set("picked", picked);
    model.save_changes();
  });
  model.on("change:svg", draw); // the caption is in the SVG too, so this covers all
  draw();
  return () => {
    model.off("change:svg", draw);
    drags.stop();
    unpick();
  };
}

function patch(host, svg) {
  const fresh = document.createElement("template");
  fresh.innerHTML = svg;
  const [old, next] = [host.firstElementChild, fresh.content.firstElementChild];
  if (old && next) morph(old, next);
  else host.replaceChildren(next ?? "");
}

// Make `old` equal to `next`, keeping every element whose tag stays the same.
function morph(old, next) {
  for (const { name } of [...old.attributes]) {
    if (!next.hasAttribute(name)) old.removeAttribute(name);
  }
  for (const { name, value } of next.attributes) {
    if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  const [kids, nextKids] = [[...old.childNodes], [...next.childNodes]];
  nextKids.forEach((kid, i) => {
    const was = kids[i];
    if (!was) old.append(kid);
    else if (was.nodeName !== kid.nodeName) was.replaceWith(kid);
    else if (kid.nodeType === Node.ELEMENT_NODE) morph(was, kid);
    else if (was.data !== kid.data) was.data = kid.data;
  });
  kids.slice(nextKids.length).forEach((kid) => kid.remove());
}

// Listen on the host, which is never redrawn; a bar is an element with the class sd-drag.
function allowDragging(host, send) {
  let held = null;
  let sent = {}; // the newest value that is not drawn yet: the next key press builds on it
  const drawn = (bar) => Number(bar.getAttribute("aria-valuenow"));
  const barOf = (event) => event.target.closest?.(".sd-drag");
  const report = (bar, value) => {
    const rounded = Math.min(1, Math.max(0, Math.round(value * 1000) / 1000));
    sent = { bar, value: rounded };
    send(bar.dataset.key, Number(bar.dataset.bar), rounded);
  };
  const follow = (event) => {
    if (!held) return;
    const svg = host.firstElementChild;
    const box = svg.getBoundingClientRect();
    const row = ((event.clientY - box.top) * svg.viewBox.baseVal.height) / box.height;
    const { zero, one } = held.dataset;
    report(held, (zero - row) / (zero - one));
  };
  const listeners = {
    pointerdown: (event) => {
      held = barOf(event);
      if (!held) return;
      host.setPointerCapture(event.pointerId);
      held.focus({ preventScroll: true });
      follow(event);
      event.preventDefault();
    },
    pointermove: follow,
    pointerup: () => (held = null),
    pointercancel: () => (held = null),
    keydown: (event) => {
      const bar = barOf(event);
      if (!bar || !(event.key in ARROWS)) return;
      event.preventDefault();
      event.stopPropagation(); // JupyterLab would move to the next cell
      const step = event.shiftKey ? 0.1 : 0.02;
      report(bar, (sent.bar === bar ? sent.value : drawn(bar)) + ARROWS[event.key] * step);
    },
  };
  for (const [name, listener] of Object.entries(listeners)) host.addEventListener(name, listener);
  return {
    settle: () => {
      if (sent.bar && drawn(sent.bar) === sent.value) sent = {};
    },
    stop: () => {
      for (const [name, listener] of Object.entries(listeners)) {
        host.removeEventListener(name, listener);
      }
    },
  };
}

// A click, Enter or Space on an element with the class sd-pick picks it.
function allowPicking(host, send) {
  let count = 0; // so that picking the same thing again is news too
  const pick = (event) => {
    const thing = event.target.closest?.(".sd-pick");
    if (!thing || (event.type === "keydown" && ![" ", "Enter"].includes(event.key))) return;
    event.preventDefault();
    event.stopPropagation(); // JupyterLab would edit or run the cell
    const { key, bar } = thing.dataset;
    send({ key, bar: Number(bar), count: ++count });
  };
  for (const name of ["click", "keydown"]) host.addEventListener(name, pick);
  return () => {
    for (const name of ["click", "keydown"]) host.removeEventListener(name, pick);
  };
}

export default { render };
