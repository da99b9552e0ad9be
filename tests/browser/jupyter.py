"""A real JupyterLab and a real browser, with the waits that make a test of them steady."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
import uuid
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

TOKEN = "course-browser-test"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--no-sandbox",  # needed as root
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
PATIENCE = 180  # seconds: workers share the cores, and only a fault waits so long
QUIET = {"fetchNews": "false", "checkForUpdates": False}  # no toast over the notebook
STARTED = """async () => {
  const app = window.jupyterapp;
  if (!app) return false;
  await app.restored;
  const panel = (window.coursePanel ??= app.shell.currentWidget);  // stays when the focus moves
  if (!panel?.context) return false;
  await panel.context.ready;
  await panel.sessionContext.ready;
  const kernel = panel.sessionContext.session?.kernel;
  return kernel?.connectionStatus === 'connected' && kernel?.status === 'idle';
}"""
STOP_KERNEL = "() => window.coursePanel?.sessionContext.shutdown()"
RUN_ALL = """() => {
  window.courseRan = false;  // awaiting the command here could wait for ever
  window.jupyterapp.commands.execute('notebook:run-all-cells')
    .then(() => { window.courseRan = true; });
}"""
CELLS_DONE = """() => {
  const panel = window.coursePanel;
  const cells = [...panel.content.model.cells].filter(
    (cell) => cell.type === 'code' && cell.sharedModel.source.trim());
  return window.courseRan && panel.sessionContext.session.kernel.status === 'idle'
    && cells.every((cell) => cell.executionCount !== null && cell.executionState !== 'running');
}"""
CELL_ERRORS = """() => [...window.coursePanel.content.model.cells]
  .filter((cell) => cell.type === 'code')
  .flatMap((cell) => cell.outputs.toJSON())
  .filter((output) => output.output_type === 'error')
  .map((output) => `${output.ename}: ${output.evalue}`)"""


def find_browser() -> str | None:
    """The path of an installed Chromium or Chrome."""
    return next((path for name in BROWSERS if (path := shutil.which(name))), None)


@contextmanager
def run_server(root: Path, scratch: Path, theme: str = "JupyterLab Light"):
    """JupyterLab over ``root`` with all of its state in ``scratch``; yields its address."""
    settings = scratch / "settings" / "@jupyterlab" / "apputils-extension"
    settings.mkdir(parents=True)
    (settings / "notification.jupyterlab-settings").write_text(json.dumps(QUIET))
    (settings / "themes.jupyterlab-settings").write_text(json.dumps({"theme": theme}))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    address = f"http://127.0.0.1:{port}"
    log = (scratch / "server.log").open("wb")
    server = subprocess.Popen(
        _server_command(root, port), env=_server_environment(scratch), stdout=log, stderr=log,
        start_new_session=True,
    )  # fmt: skip
    try:
        _wait_for_server(server, address, scratch / "server.log")
        yield address
    finally:
        _stop(server)
        log.close()


def _server_command(root: Path, port: int) -> list[str]:
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--ip=127.0.0.1"]
    command += [f"--port={port}", "--ServerApp.port_retries=0", f"--IdentityProvider.token={TOKEN}"]
    command += [f"--ServerApp.root_dir={root}", "--LabApp.expose_app_in_browser=True"]
    command += ["--LabApp.extension_manager=readonly"]
    command += ["--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate"]
    return command + (["--allow-root"] if hasattr(os, "geteuid") and os.geteuid() == 0 else [])


def _server_environment(scratch: Path) -> dict[str, str]:
    folders = {
        "JUPYTER_CONFIG_DIR": "config", "JUPYTER_DATA_DIR": "data", "JUPYTER_RUNTIME_DIR": "run",
        "JUPYTERLAB_SETTINGS_DIR": "settings", "JUPYTERLAB_WORKSPACES_DIR": "workspaces",
        "IPYTHONDIR": "ipython",
    }  # fmt: skip
    own = {name: str(scratch / folder) for name, folder in folders.items()}
    return {**os.environ, **own, "COURSE_REPEATS": "1"}  # nobody reads the seconds


def _wait_for_server(server: subprocess.Popen, address: str, log: Path) -> None:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if server.poll() is not None:
            break
        try:
            urllib.request.urlopen(f"{address}/api/status?token={TOKEN}", timeout=2).close()
            return
        except OSError:
            time.sleep(0.1)
    raise RuntimeError(f"JupyterLab did not start:\n{log.read_text(errors='replace')[-3000:]}")


def _stop(server: subprocess.Popen) -> None:
    """End the server and its kernels: SIGTERM lets it shut the kernels down itself."""
    server.terminate()
    try:
        server.wait(15)
    except subprocess.TimeoutExpired:
        if hasattr(os, "killpg"):
            os.killpg(server.pid, signal.SIGKILL)
        else:
            server.kill()
        server.wait(5)


@dataclass
class Notebook:
    """One notebook open in JupyterLab, with everything that went wrong on its page."""

    page: object  # playwright's Page
    page_errors: list[str] = field(default_factory=list)
    foreign_requests: list[str] = field(default_factory=list)

    def watch(self) -> None:
        """Collect script errors, console errors and requests to other hosts."""
        self.page.on("pageerror", lambda error: self.page_errors.append(str(error)))
        self.page.on("console", self._note_console)
        self.page.on("request", self._note_request)

    def _note_console(self, message) -> None:
        if message.type == "error":
            self.page_errors.append(f"{message.text} ({message.location.get('url', '')})")

    def _note_request(self, request) -> None:
        local = ("http://127.0.0.1:", "ws://127.0.0.1:", "data:", "blob:")
        if not request.url.startswith(local):
            self.foreign_requests.append(request.url)

    def wait_until_started(self, timeout: float = PATIENCE) -> None:
        """Wait for the notebook and its kernel ("idle" alone is shown without a kernel too)."""
        deadline = time.monotonic() + timeout
        # Not wait_for_function: it takes the promise of an async function for a yes.
        while not self.page.evaluate(STARTED):
            if time.monotonic() > deadline:
                raise AssertionError(f"the notebook had no idle kernel within {timeout} s")
            self.page.wait_for_timeout(100)

    def run_all(self, timeout: float = 2 * PATIENCE) -> None:
        """Run every cell and wait until each has a number and the kernel is idle."""
        self.page.evaluate(RUN_ALL)
        self.page.wait_for_function(CELLS_DONE, timeout=timeout * 1000)

    def kernel_errors(self) -> list[str]:
        """Exceptions in the outputs of cells, and those that widgets show under themselves."""
        shown = self.page.locator(
            ".jupyter-widgets [data-mime-type='application/vnd.jupyter.stderr']"
        )
        return self.page.evaluate(CELL_ERRORS) + shown.all_text_contents()

    def reveal(self, locator) -> None:
        """Scroll an element into the middle; Lab's windowing defeats playwright's own way."""
        locator.evaluate("element => element.scrollIntoView({block: 'center'})")
        self.page.wait_for_timeout(80)

    def sliders(self) -> list[str]:
        """The descriptions of all ipywidgets sliders on the page, in order."""
        # Not inner_texts: Lab leaves cells off the screen unrendered, and their inner text empty.
        return self.page.locator(".widget-slider .widget-label").all_text_contents()

    def slider(self, description: str, nth: int = 0, within=None):
        """An ipywidgets slider by its description, on the page or in one output of it."""
        label = self.page.locator(".widget-label", has_text=description)
        return (within or self.page).locator(".widget-slider").filter(has=label).nth(nth)

    def press_slider(self, slider, key: str = "ArrowRight", times: int = 1) -> None:
        """Move a slider with the keyboard."""
        self.reveal(slider)
        handle = slider.locator(".noUi-handle")
        handle.focus()
        for _ in range(times):
            handle.press(key)

    def pull_slider(self, slider, share: float) -> None:
        """Move a slider's handle with the mouse to ``share`` of its length."""
        self.reveal(slider)
        handle, track = (slider.locator(f".noUi-{part}") for part in ("handle", "base"))
        start, rail = handle.bounding_box(), track.bounding_box()
        middle = start["y"] + start["height"] / 2
        self.page.mouse.move(start["x"] + start["width"] / 2, middle)
        self.page.mouse.down()
        self.page.mouse.move(rail["x"] + share * rail["width"], middle, steps=5)
        self.page.mouse.up()

    def wait_for_change(self, locator, before: str, timeout: float = 30) -> str:
        """Wait until the inner HTML of an element differs from ``before`` and return it."""
        deadline = time.monotonic() + timeout
        while (now := locator.inner_html()) == before:
            if time.monotonic() > deadline:
                raise AssertionError(f"nothing changed within {timeout} s")
            self.page.wait_for_timeout(20)
        return now

    def wait_until_still(self, locator, quiet: float = 0.5, timeout: float = 30) -> None:
        """Wait until the inner HTML of an element has not changed for ``quiet`` seconds."""
        deadline, before, since = time.monotonic() + timeout, None, time.monotonic()
        while time.monotonic() - since < quiet:
            if time.monotonic() > deadline:
                raise AssertionError(f"still changing after {timeout} s")
            if (now := locator.inner_html()) != before:
                before, since = now, time.monotonic()
            self.page.wait_for_timeout(50)


@contextmanager
def open_notebook(browser, address: str, name: str, width: int = 1280, height: int = 1000):
    """Open a notebook in a fresh workspace and wait for its kernel; yields a `Notebook`."""
    context = browser.new_context(viewport={"width": width, "height": height})
    context.set_default_navigation_timeout(PATIENCE * 1000)
    notebook = Notebook(context.new_page())
    notebook.watch()
    try:
        workspace = uuid.uuid4().hex  # a used one would bring old tabs back
        notebook.page.goto(f"{address}/lab/workspaces/{workspace}/tree/{name}?token={TOKEN}")
        notebook.page.wait_for_function("window.jupyterapp !== undefined", timeout=PATIENCE * 1000)
        notebook.wait_until_started()
        yield notebook
    finally:
        with suppress(Exception):  # a page that broke has told so already
            notebook.page.evaluate(STOP_KERNEL)  # or it would hold its models to the last test
        context.close()
