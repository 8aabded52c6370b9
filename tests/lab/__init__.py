"""Real SSH servers to test against: `sshd.py` on loopback, `hosts.py` as separate machines."""
