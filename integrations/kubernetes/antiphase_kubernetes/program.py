"""What our programs have in common: options that are one line when they cannot be taken, the API, and the service."""

from __future__ import annotations

import argparse
import os
import re
from typing import NoReturn

from antiphase import Client, Retries

from .api import Api

SECONDS_MAX = 366 * 86_400
"""Longest span of an option: the service takes no longer lease."""


class Parser(argparse.ArgumentParser):
    """Options, with those that all programs have."""

    def __init__(self, program: str, description: str, role: str) -> None:
        super().__init__(prog=program, description=description)
        self.add_argument("--server", default="http://127.0.0.1:7480", help="address of the topology service (default: %(default)s)")
        self.add_argument("--authority", help="file with the authority that issued the service's certificate (PEM)")
        self.add_argument("--certificate", help=f"file with the certificate of this program, of the role {role} (PEM)")
        self.add_argument("--key", help="file with the private key of --certificate (PEM)")
        inside = "address of the API of Kubernetes, such as that of `kubectl proxy`; a pod needs none, and asks the API of its own cluster"
        self.add_argument("--api", help=inside)

    def error(self, message: str) -> NoReturn:
        """One line, where argparse writes the whole usage."""
        self.exit(2, f"{self.prog}: {' '.join(message.split())}\n")

    def both(self, options: argparse.Namespace) -> tuple[Api, Client]:
        """The API of Kubernetes and the service, as the options say."""
        ours = {"authority": options.authority, "certificate": options.certificate, "key": options.key}
        try:
            api = Api.at(options.api) if options.api is not None else Api.inside(os.environ)
            return api, Client(options.server, timeout_s=10.0, retries=Retries(attempts=2), **ours)
        except (OSError, ValueError) as error:
            self.error(str(error))


def seconds(text: str) -> float:
    """Seconds of an option."""
    # Not `float` alone, which takes "nan", with which no comparison ever comes true.
    if not re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?", text) or float(text) > SECONDS_MAX:
        raise argparse.ArgumentTypeError(f"{text!r:.100}; expected seconds, {SECONDS_MAX} at most")
    return float(text)


def say(line: str) -> None:
    """Writes a line to the log."""
    print(" ".join(line.split()), flush=True)
