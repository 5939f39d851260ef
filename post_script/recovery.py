"""Scripts that an operator installed and a request's handler names, run before a node is tried again."""

from __future__ import annotations

import os
import signal
import subprocess

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_PASSED_ON = ("PATH", "HOME", "LANG", "USER", "LOGNAME", "TMPDIR", "X509_USER_PROXY", "BEARER_TOKEN_FILE")


def run_script(script: dict[str, Any], post: dict[str, Any]) -> dict[str, Any]:
    """Run it within its time, its output in files of this attempt. However it ends, the node is tried again."""
    record = {"script": script["name"], "exit_code": None}
    path = _installed(script["folder"], script["name"])
    if path is None:
        return dict(record, outcome="not installed")
    stem = f"{post['node_name']}.{post['cluster']}.recovery"
    try:
        with open(f"{stem}.out", "wb") as out, open(f"{stem}.err", "wb") as err:
            process = subprocess.Popen(
                [path], stdin=subprocess.DEVNULL, stdout=out, stderr=err, env=_environment(script),
                start_new_session=True,
            )  # fmt: skip
            return dict(record, **_waited_for(process, script["time_limit_sec"]))
    except OSError as error:
        return dict(record, outcome=f"could not be run: {error.strerror}")


def _installed(folder: str, name: str) -> str | None:
    """The path of a script in the operator's folder; a name that leads elsewhere is none."""
    if not folder or not name or "/" in name or name.startswith("."):
        return None
    path = os.path.join(folder, name)
    return path if os.path.isfile(path) and os.access(path, os.X_OK) else None


def _environment(script: dict[str, Any]) -> dict[str, str]:
    known = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    known.setdefault("PATH", os.defpath)
    return dict(known, **script["environment"])


def _waited_for(process: subprocess.Popen[bytes], limit_sec: float) -> dict[str, Any]:
    try:
        code = process.wait(limit_sec)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return {"outcome": f"ended after {limit_sec:g} s"}
    return {"exit_code": code, "outcome": "succeeded" if code == 0 else "failed"}
