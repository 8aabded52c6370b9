"""`healthcheck.py PART...`: ask /healthz whether these parts of Carrel are well; for containers.

The address is HEALTHZ_URL, by default this container's own. Exit status 0 means well; else the
reason is printed. Standard library only, so that a check costs milliseconds.
"""

from __future__ import annotations

import json
import os
import sys
import urllib.error
import urllib.request

ADDRESS = os.environ.get("HEALTHZ_URL", "http://127.0.0.1:8000/healthz")
HEADERS = {
    # A name that the portal always answers to, and no detour by the TLS proxy in front of it.
    "Host": "127.0.0.1",
    "X-Forwarded-Proto": "https",
}


def parts() -> dict[str, str]:
    """What /healthz says of each part; 503 carries the same answer as 200."""
    request = urllib.request.Request(ADDRESS, headers=HEADERS)  # noqa: S310  (set by compose)
    try:
        with urllib.request.urlopen(request, timeout=5) as answer:  # noqa: S310  (ours, http)
            return json.load(answer)["parts"]
    except urllib.error.HTTPError as error:
        return json.load(error)["parts"]


def main(wanted: list[str]) -> int:
    try:
        said = parts()
    except (OSError, ValueError, KeyError) as error:
        print(f"{ADDRESS} gives no answer: {error}")
        return 1
    ill = [f"{part}: {said.get(part, 'unknown')}" for part in wanted if said.get(part) != "ok"]
    print("; ".join(ill) or "ok")
    return 1 if ill else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
