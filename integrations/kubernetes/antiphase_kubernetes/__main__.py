"""`python3 -m antiphase_kubernetes`: the controller, in a pod of the cluster or beside it."""

from __future__ import annotations

import argparse
import os
import re
import time
from typing import NoReturn

from antiphase import Client, Retries

from .api import Api, ApiError
from .controller import Controller, Settings
from .gang import JOB

LOOK_S = 30
"""All is looked at again after so long, also if the API told nothing: leases are renewed, and waits end."""
WAITING_S = 5
"""The same while a gang waits: nodes come free, and the service answers again, without an event of its pods."""
PAUSE_S = 1.0
"""Between two looks, so that a gang whose pods come one by one is looked at a few times only."""


SECONDS_MAX = 366 * 86_400
"""Longest span of an option: the service takes no longer lease."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """One line, where argparse writes the whole usage."""
        self.exit(2, f"{self.prog}: {' '.join(message.split())}\n")


def _seconds(text: str) -> float:
    # Not `float` alone, which takes "nan", with which no comparison ever comes true.
    if not re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?", text) or float(text) > SECONDS_MAX:
        raise argparse.ArgumentTypeError(f"{text!r:.100}; expected seconds, {SECONDS_MAX} at most")
    return float(text)


def main() -> None:
    """Runs until it is ended."""
    parser = _Parser(prog="antiphase_kubernetes", description=__doc__)
    parser.add_argument("--server", default="http://127.0.0.1:7480", help="the topology service")
    parser.add_argument("--authority", help="file of the service's authority")
    parser.add_argument("--certificate", help="our certificate, of the role admin")
    parser.add_argument("--key", help="its key")
    parser.add_argument("--api", help="address of the API, such as of `kubectl proxy`; else that of the cluster in which this is a pod")
    parser.add_argument("--resource", default=Settings.resource, help="the device by which nodes are full (%(default)s)")
    parser.add_argument("--nodes", default="", metavar="SELECTOR", help="labels of the nodes that are chosen; each is a host of the fabric")
    for name, what in (
        ("open-s", "a gang runs as it comes when the service did not answer for so long"),
        ("place-s", "a gang runs as it comes when it was not whole, or found no nodes, for so long"),
        ("lease-s", "how long a job stays committed when nobody renews it"),
    ):
        default = getattr(Settings, name.replace("-", "_"))
        parser.add_argument(f"--{name}", type=_seconds, default=default, metavar="SECONDS", help=f"{what} (%(default)s)")
    options = parser.parse_args()
    if options.lease_s < 1:
        parser.error(f"argument --lease-s: {options.lease_s}; expected 1 s at least, as a lease is renewed each third of it")
    ours = {"authority": options.authority, "certificate": options.certificate, "key": options.key}
    try:
        api = Api.at(options.api) if options.api is not None else Api.inside(os.environ)
        client = Client(options.server, timeout_s=10.0, retries=Retries(attempts=2), **ours)
    except (OSError, ValueError) as error:
        parser.error(str(error))
    settings = Settings(options.resource, options.nodes, options.open_s, options.place_s, options.lease_s)
    controller = Controller(api, client, settings, lambda line: print(" ".join(line.split()), flush=True))
    while True:
        try:
            version = controller.look()
            # Any event is a reason to look: what it says is read from the next list.
            for _ in api.watch("/api/v1/pods", version, WAITING_S if controller.waits else LOOK_S, labelSelector=JOB):
                break
        except ApiError as error:
            print(f"the API of Kubernetes: {error}", flush=True)
        except Exception as error:  # Gangs wait for us: a bug in one look must not be the last one.
            print(f"{type(error).__name__}: {error}", flush=True)
        time.sleep(PAUSE_S)


if __name__ == "__main__":
    main()
