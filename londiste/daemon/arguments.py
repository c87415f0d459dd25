"""Arguments of a process without the secrets in them.

The list of processes shows arguments to every user.  So a process whose arguments contain a
password executes itself once more with other words; those that were given are in its environment,
which only the same user can read.  Until then the list shows them, so nothing that takes time is
imported here.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence

_VARIABLE = "LONDISTE_HIDDEN_ARGUMENTS"

# The forms of libpq, without its driver, which takes time to import.
_SECRETS = (
    "password|sslpassword|oauth_client_secret|scram_client_key|scram_server_key|obfuscator_key"
)
_PAIR = re.compile(rf"(?is)\b((?:{_SECRETS})\s*=\s*)('(?:[^'\\]|\\.)*'?|(?:\\.|[^\s\\])+)")
_URI = re.compile(r"(?s)(://[^:/?#@]*:).+(@)")
#: Whole values: URLs of webhooks, options of object stores, settings of Spark by their keys.
_SETTING = re.compile(
    r"(?is)^((?:--set=)?(?:webhook|(?:lake|target)_storage|spark\.[^=]*(?:secret|passw|token|key|credential)[^=]*)=).+"
)


def without_secrets(word: str) -> str:
    """Pure: an argument without the secrets of a connection string or setting in it."""
    return _PAIR.sub(r"\1***", _URI.sub(r"\1***\2", _SETTING.sub(r"\1***", word)))


def hide_arguments() -> None:
    """Executes this process again if its arguments contain secrets, which the list then lacks.

    In the new process ``sys.argv`` is as it was given.  Call this before imports that take time.
    """
    given = sys.argv[1:]
    if _VARIABLE in os.environ:
        sys.argv[1:] = _restored(given, os.environ.pop(_VARIABLE))
        return
    shown = [without_secrets(word) for word in given]
    if shown == given or sys.orig_argv[-len(given) :] != given:
        return
    import json

    hidden = {str(at): word for at, word in enumerate(given) if word != shown[at]}
    argv = [*sys.orig_argv[: -len(given)], *shown]
    os.execve(sys.executable, argv, {**os.environ, _VARIABLE: json.dumps(hidden)})


def _restored(shown: Sequence[str], text: str) -> list[str]:
    """Pure: the arguments as they were given; as they are if the text is of somebody else."""
    import json

    try:
        hidden = json.loads(text)
        return [str(hidden.get(str(at), word)) for at, word in enumerate(shown)]
    except (ValueError, RecursionError, AttributeError):
        return list(shown)
