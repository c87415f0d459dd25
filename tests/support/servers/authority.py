"""A certificate authority of a test, by openssl, for poolers that speak TLS."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from londiste.embedded.account import server_account


class Authority:
    """Signs certificates.

    directory -- one that every account may enter: pgbouncer runs as another one than root.
    """

    def __init__(self, directory: Path, name: str) -> None:
        self.directory = directory
        self.key = directory / f"{name}.key"
        self.certificate = directory / f"{name}.crt"
        self._run(
            "req", "-x509", *self._new(self.key), "-out", self.certificate, "-days", "2",
            "-subj", f"/CN={name}",
        )  # fmt: skip

    def server(self, name: str, *, days: int = 2) -> Mapping[str, str]:
        """Settings of a pooler that has a certificate for ``name``; negative days: expired."""
        stem = f"{name}{days}"
        key, request, signed = (self.directory / f"{stem}.{end}" for end in ("key", "csr", "pem"))
        names = self.directory / f"{stem}.ext"
        names.write_text(f"subjectAltName = DNS:{name}\n")
        self._run("req", *self._new(key), "-out", request, "-subj", f"/CN={name}")
        self._run(
            "x509", "-req", "-in", request, "-CA", self.certificate, "-CAkey", self.key,
            "-CAcreateserial", "-out", signed, "-days", str(days), "-extfile", names,
        )  # fmt: skip
        server_account().own(key, 0o600)
        return {
            "client_tls_sslmode": "allow",
            "client_tls_key_file": str(key),
            "client_tls_cert_file": str(signed),
        }

    @staticmethod
    def program() -> str | None:
        """Where openssl is; None if there is none."""
        return shutil.which("openssl")

    @staticmethod
    def _new(key: Path) -> tuple[str | Path, ...]:
        return "-newkey", "rsa:2048", "-nodes", "-keyout", key

    @staticmethod
    def _run(*arguments: str | Path) -> None:
        done = subprocess.run(["openssl", *arguments], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
