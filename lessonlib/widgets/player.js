// Steps through frames that Python drew. It runs in the page alone: no kernel needed.

const SECONDS_A_STEP = 1.6;

function render({ model, el }) {
  const figure = make("figure", { className: "sd-figure sd-player" });
  const host = make("div", { className: "sd-frame" });
  const caption = make("figcaption");
  const bar = make("div", { className: "sd-buttons" });
  const back = make("button", { textContent: "Back" });
  const play = make("button", { textContent: "Play" });
  const next = make("button", { textContent: "Next" });
  const slider = make("input", { type: "range", min: 0, ariaLabel: "step" });
  const place = make("output");
  caption.setAttribute("aria-live", "polite");
  figure.style.maxWidth = `${model.get("width") * model.get("growth")}px`;
  bar.append(back, play, next, slider, place);
  figure.append(bar, host, caption);
  el.append(figure);

  const last = () => model.get("frames").length - 1;
  let timer = null;

  const draw = () => {
    const step = Math.min(model.get("step"), last());
    host.innerHTML = model.get("frames")[step];
    caption.textContent = model.get("captions")[step];
    slider.max = last();
    slider.value = step;
    place.textContent = `${step + 1} of ${last() + 1}`;
    // Not `disabled`: a button that has the focus would stop hearing the arrow keys.
    back.setAttribute("aria-disabled", step === 0);
    next.setAttribute("aria-disabled", step === last());
  };
  const go = (step) => {
    model.set("step", Math.min(Math.max(step, 0), last()));
    model.save_changes();
  };
  const pause = () => {
    clearInterval(timer);
    timer = null;
    play.textContent = "Play";
  };
  const start = () => {
    if (model.get("step") === last()) go(0);
    timer = setInterval(() => {
      if (model.get("step") === last()) pause();
      else go(model.get("step") + 1);
    }, SECONDS_A_STEP * 1000);
    play.textContent = "Pause";
  };
  const stepBy = (change) => {
    pause();
    go(model.get("step") + change);
  };

  back.onclick = () => stepBy(-1);
  next.onclick = () => stepBy(1);
  play.onclick = () => (timer === null ? start() : pause());
  slider.oninput = () => stepBy(Number(slider.value) - model.get("step"));
  figure.addEventListener("keydown", (event) => {
    const jumps = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity };
    if (event.key !== "Tab") event.stopPropagation(); // or JupyterLab acts on the key too
    if (!(event.key in jumps)) return;
    event.preventDefault();
    stepBy(jumps[event.key]);
  });
  model.on("change:step", draw);
  model.on("change:frames", draw);
  draw();
  return () => {
    pause();
    model.off("change:step", draw);
    model.off("change:frames", draw);
  };
}

function make(tag, properties = {}) {
  return Object.assign(document.createElement(tag), properties);
}

export default { render };
