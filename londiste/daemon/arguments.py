"""Arguments with a password, which the list of processes must not show.

The process executes itself once more with other words in its argument list; the words that were
given are in the environment, which only the same user can read.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping

from londiste.errors import BadOption

_VARIABLE = "LONDISTE_HIDDEN_ARGUMENTS"


def given() -> dict[str, str]:
    """What replaced words stand for; empty in a process whose arguments are as they were given.

    Raises BadOption if the environment contains anything else.
    """
    text = os.environ.pop(_VARIABLE, "{}")
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or not all(isinstance(word, str) for word in found.values()):
        # The text may contain passwords.
        raise BadOption(
            f"{_VARIABLE}: not what Londiste has written there", hint=f"unset {_VARIABLE}"
        )
    return found


def hide(words: Mapping[str, str]) -> None:
    """Executes this process again with words of its argument list replaced.

    words -- the secret ones, and what is shown instead; ``given`` returns them in the new process.
    Returns if the argument list has none of them.
    """
    shown = list(sys.orig_argv)
    for secret, instead in words.items():
        shown = [word.replace(secret, instead) for word in shown]
    if shown == sys.orig_argv:
        return
    known = {instead: secret for secret, instead in words.items()}
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(sys.executable, shown, {**os.environ, _VARIABLE: json.dumps(known)})
