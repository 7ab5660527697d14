"""`python3 -m antiphase_kubernetes`: the controller, in a pod of the cluster or beside it."""

from __future__ import annotations

import time

from .api import ApiError
from .controller import Controller, Settings
from .gang import JOB
from .program import Parser, say, seconds

LOOK_S = 30
"""All is looked at again after so long, also if the API told nothing: leases are renewed, and waits end."""
WAITING_S = 5
"""The same while a gang waits: nodes come free, and the service answers again, without an event of its pods."""
PAUSE_S = 1.0
"""Between two looks, so that a gang whose pods come one by one is looked at a few times only."""


def main() -> None:
    """Runs until it is ended."""
    parser = Parser("antiphase_kubernetes", str(__doc__), "admin")
    parser.add_argument("--resource", default=Settings.resource, help="the device by which nodes are full (%(default)s)")
    parser.add_argument("--nodes", default="", metavar="SELECTOR", help="labels of the nodes that are chosen; each is a host of the fabric")
    for name, what in (
        ("open-s", "a gang runs as it comes when the service did not answer for so long"),
        ("place-s", "a gang runs as it comes when it was not whole, or found no nodes, for so long"),
        ("lease-s", "how long a job stays committed when nobody renews it"),
    ):
        default = getattr(Settings, name.replace("-", "_"))
        parser.add_argument(f"--{name}", type=seconds, default=default, metavar="SECONDS", help=f"{what} (%(default)s)")
    options = parser.parse_args()
    if options.lease_s < 1:
        parser.error(f"argument --lease-s: {options.lease_s}; expected 1 s at least, as a lease is renewed each third of it")
    api, client = parser.both(options)
    settings = Settings(options.resource, options.nodes, options.open_s, options.place_s, options.lease_s)
    controller = Controller(api, client, settings, say)
    while True:
        try:
            version = controller.look()
            # Any event is a reason to look: what it says is read from the next list.
            for _ in api.watch("/api/v1/pods", version, WAITING_S if controller.waits else LOOK_S, labelSelector=JOB):
                break
        except ApiError as error:
            say(f"the API of Kubernetes: {error}")
        except Exception as error:  # Gangs wait for us: a bug in one look must not be the last one.
            say(f"{type(error).__name__}: {error}")
        time.sleep(PAUSE_S)


if __name__ == "__main__":
    main()
