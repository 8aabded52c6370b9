"""SSH to a node, by Paramiko: nothing else in Carrel imports it but the practice lab's server.

`keys.py` host keys and our own, `wire.py` one hop, `connect.py` from an address to a login and
what can go wrong, `pool.py` warm connections and their sessions, `program.py` one program over
one session, `login.py` the transport itself.
"""

from jobs.nodes.ssh.keys import HostKey, WeakKey, generate_key, load_key, public_key_line
from jobs.nodes.ssh.login import SshTransport, scan_host_key
from jobs.nodes.ssh.wire import SshAddress

__all__ = [
    "HostKey",
    "SshAddress",
    "SshTransport",
    "WeakKey",
    "generate_key",
    "load_key",
    "public_key_line",
    "scan_host_key",
]
