"""Plans of pages about services and notifications, which need a host of their own."""

from __future__ import annotations

from tests.support.pages.plan import Page

RECEIVER = "needs a receiver; tests/integration/notify runs them with one"
SYSTEMD = "needs systemd and root; tests/unit/daemon/test_service_files.py checks the files"
BROWSER = "needs a browser; tests/integration/console shows it in Chromium"
HOME = "writes into the home directory; tests/unit/daemon/test_service_files.py checks the files"

PAGES: tuple[Page, ...] = (
    Page(
        "docs/howto/console.md",
        not_run={
            "pip install": BROWSER,
            "shop.toml web": BROWSER,
            "[web]": BROWSER,
            "--hash-password": "asks for a password on a terminal; tests/unit/console does",
        },
        other_output={"--hash-password": "is not run"},
    ),
    Page(
        "docs/howto/notify.md",
        not_run={"[notify]": RECEIVER, "londiste notify": RECEIVER, "import hashlib": RECEIVER},
    ),
    Page(
        "docs/howto/read-from-a-standby.md",
        not_run={"[londiste]": "needs a standby, which tests/integration/standby has"},
    ),
    Page(
        "docs/howto/selftest.md",
        not_run={"londiste selftest": "takes minutes; tests/scenarios/selftest runs short tests"},
    ),
    Page(
        "docs/howto/run-as-a-service.md",
        not_run={
            "sudo ": SYSTEMD,
            "systemctl status": SYSTEMD,
            "londiste man": HOME,
            "londiste completion": HOME,
        },
    ),
)
