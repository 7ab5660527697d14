"""`python -m antiphase_gate` says what a gate of this environment has: nothing is held while a line says that something is missing.

It makes no step, so it can be asked beside a job that runs. `antiphase gate status` also reads what the page says.
"""

import os
import sys

from . import _OFF, __version__, _library, is_leader, nccl_calls, nccl_plugin

# `DIRECTORY` of the library.
_DIRECTORY = "/run/antiphase"
# `STEM_MAX` of the library: longest name that is a file's name as it is.
_STEM_MAX = 200


def _streams():
    """Why streams of a GPU do not wait, as far as the environment says it; nothing is loaded, and most jobs here have no GPU."""
    switch = os.environ.get(_library.STREAM_SWITCH, "")
    if switch.lower() in _OFF:
        return "%s is %s" % (_library.STREAM_SWITCH, switch)
    if os.environ.get("CUDA_DEVICE_MAX_CONNECTIONS", "").strip() == "1":
        return _library.REFUSALS[3]
    return ""


def _findings():
    """What was looked at, what was found, and whether it keeps a gate from holding."""
    try:
        calls = _library.load()
        yield "library", "%s, interface %d" % (calls.path, _library.ABI), False
    except OSError as error:
        yield "library", "missing: %s" % error, True
    yield "NCCL plugin", nccl_plugin() or "not in this package", False
    yield "NCCL calls", nccl_calls() or "not in this package", False
    switch = os.environ.get("ANTIPHASE_GATE", "")
    if switch:
        off = switch.lower() in _OFF
        yield "ANTIPHASE_GATE", switch + (", which switches the gate off" if off else ""), off
    streams = _streams()
    if streams:
        yield "GPU streams", "the host waits in their place: %s" % streams, False
    job = os.environ.get("ANTIPHASE_JOB")
    yield "job", job or "missing: ANTIPHASE_JOB is not set", not job
    leader = is_leader()
    if not leader:
        yield "rank", "not 0: only rank 0 is held, and the others wait for it", False
    directory = os.environ.get("ANTIPHASE_DIR") or _DIRECTORY
    there = os.path.isdir(directory)
    yield "pages", directory if there else "missing: %s is no directory here; mount the agent's" % directory, not there
    # The file of a longer name ends with a digest of it, which the library knows.
    if there and job and leader and len(job) <= _STEM_MAX:
        page = os.path.join(directory, job + ".page")
        has_page = os.path.exists(page)
        yield "page", page if has_page else "missing: no %s; is the job committed, and rank 0 on this host?" % page, not has_page


def main():
    findings = [("package", __version__, False), *_findings()]
    for what, found, _ in findings:
        print("%-14s  %s" % (what, found))
    return 1 if any(missing for _, _, missing in findings) else 0


if __name__ == "__main__":
    sys.exit(main())
