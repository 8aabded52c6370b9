from tests.lab.fixtures import account, own_sshd, scratch, sshd

__all__ = ["account", "own_sshd", "scratch", "sshd"]
