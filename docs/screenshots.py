"""Makes the pictures of the console in docs/images from a real demo: ``make screenshots``.

It needs the Chromium of the system (``apt-get install chromium``).
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

IMAGES = Path(__file__).resolve().parent / "images"
#: Seconds of rates that the pictures of queues show.
_HISTORY_SECONDS = 45.0
_WIDE, _PHONE = {"width": 1180, "height": 760}, {"width": 360, "height": 740}


def main() -> None:
    """Runs the demo and takes the pictures."""
    from playwright.sync_api import sync_playwright

    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        sys.exit("error: chromium is not installed\nhint: apt-get install chromium")
    IMAGES.mkdir(exist_ok=True)
    demo = subprocess.Popen(
        [sys.executable, "-m", "londiste", "demo", "--web", "--engine", "local", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        address = _address(demo)
        with sync_playwright() as driver:
            options = ["--no-sandbox"] if os.getuid() == 0 else []
            browser = driver.chromium.launch(executable_path=program, args=options)
            _take(browser, f"{address}/copies", "copies", wait="article.copy progress")
            # The demo is over: its result is printed, and the writer writes again.
            assert demo.stdout is not None
            assert '"equal": true' in demo.stdout.readline()
            page = browser.new_page()
            page.goto(f"{address}/queues")
            threading.Event().wait(_HISTORY_SECONDS)
            for name in ("cascade", "tables", "queues"):
                _take(browser, f"{address}/{name}", name)
            _take(browser, f"{address}/cascade", "cascade-dark", color_scheme="dark")
            _take(browser, f"{address}/cascade", "cascade-phone", viewport=_PHONE)
            browser.close()
    finally:
        demo.send_signal(signal.SIGINT)
        demo.wait(60)


def _address(demo: subprocess.Popen[str]) -> str:
    """Waits for the address of the console; the rest of the output is read by a thread."""
    assert demo.stderr is not None
    for line in demo.stderr:
        found = re.search(r"console: (http://\S+)", line)
        if found:
            threading.Thread(target=demo.stderr.read, daemon=True).start()
            return found[1]
    sys.exit("error: the demo ended early")


def _take(browser: Any, url: str, name: str, *, wait: str = "main", **options: Any) -> None:
    """Takes one picture."""
    context = browser.new_context(**{"viewport": _WIDE, "color_scheme": "light", **options})
    page = context.new_page()
    page.goto(url)
    page.locator("#connection", has_text="live").wait_for()
    page.locator(wait).first.wait_for(timeout=60_000)
    page.screenshot(path=str(IMAGES / f"console-{name}.png"))
    context.close()
    print(f"docs/images/console-{name}.png")


if __name__ == "__main__":
    main()
