"""`manage.py nodes`: add, probe, describe, drain, resume, remove and list the lab's machines."""

from __future__ import annotations

import json
from typing import Any

from django.core.exceptions import ValidationError
from django.core.management.base import CommandError, CommandParser
from django.core.serializers.json import DjangoJSONEncoder
from django.db import transaction
from django.utils import timezone

from jobs.nodes.transport import NodeError
from portal.actions import nodes as actions
from portal.actions.checks import set_checks
from portal.actions.describe import describe
from portal.actions.down import NodeAnswers, declare_off
from portal.forms.few_checkboxes import names
from portal.management.started import StartedCommand
from portal.models import Node, Partition
from portal.queries import listing


class Command(StartedCommand):
    help = "Manage the lab's nodes."

    def add_arguments(self, parser: CommandParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True)
        add = verbs.add_parser("add", help="add a machine over SSH")
        add.add_argument("host")
        add.add_argument("--user", required=True, help="the account jobs run as")
        add.add_argument("--port", type=int, default=22)
        add.add_argument(
            "--jump", action="append", default=[], metavar="USER@HOST[:PORT]",
            help="a bastion on the way; may be given several times, in order",
        )  # fmt: skip
        add.add_argument("--name", help="its name in Carrel (the host's first label)")
        add.add_argument("--partition", help="an existing partition (real nodes' usual one)")
        add.add_argument(
            "--fingerprint", action="append", default=[], metavar="SHA256:...",
            help="accept only this host key, unasked; with --jump, one for each machine",
        )  # fmt: skip
        local = verbs.add_parser("add-local", help="make this machine a node")
        local.add_argument("--name", default="this-machine")
        for verb, help_ in (("probe", "look again at what it has"), ("remove", "forget it"),
                            ("resume", "let jobs start there again"),
                            ("off", "say that it is switched off; its jobs end")):  # fmt: skip
            verbs.add_parser(verb, help=help_).add_argument("name")
        drain = verbs.add_parser("drain", help="let no further job start there")
        drain.add_argument("name")
        drain.add_argument("--reason", default="")
        told = verbs.add_parser("set", help="say what no probe can find of some nodes")
        told.add_argument("name", nargs="+")
        told.add_argument(
            "--features", metavar="A,B", help="what jobs may ask for by --constraint; '' for none"
        )
        told.add_argument(
            "--switches", metavar="LEAF,SPINE",
            help="those above the nodes, the nearest first; '' where they are not known",
        )  # fmt: skip
        told.add_argument(
            "--mounts", metavar="/A,/B", help="what must be mounted there; '' for none"
        )
        told.add_argument(
            "--guard-gpus", choices=("yes", "no"),
            help="whether jobs are kept from GPUs that processes of no job use",
        )  # fmt: skip
        told.add_argument(
            "--check-program", metavar="PATH",
            help="a program there that says by exit code 0 that the node is well; '' for none",
        )  # fmt: skip
        verbs.add_parser("public-key", help="print the line for a node's authorized_keys")
        listed = verbs.add_parser("list", help="list the nodes")
        listed.add_argument("--json", action="store_true")

    def handle(self, *args: Any, **options: Any) -> None:
        getattr(self, "_" + options["verb"].replace("-", "_"))(options)

    def _add(self, options: dict[str, Any]) -> None:
        accepted = options["fingerprint"]
        jump = self._confirmed_hops(options["jump"], accepted)
        host, port = options["host"], options["port"]
        key = self._confirm(host, port, jump, accepted)
        node = self._made(
            name=options["name"] or host.partition(".")[0], host=host, port=port,
            login=options["user"], host_key=key, jump=jump,
            partition=_partition(options["partition"]),
        )  # fmt: skip
        self._tell(node)

    def _confirmed_hops(self, given: list[str], accepted: list[str]) -> list[dict[str, Any]]:
        hops: list[dict[str, Any]] = []
        for text in given:
            user, at, place = text.rpartition("@")
            host, _, port = place.partition(":")
            if not (at and user and host) or not (port or "22").isdigit():
                raise CommandError(f"--jump: {text!r} should be USER@HOST or USER@HOST:PORT")
            number = int(port or 22)
            key = self._confirm(host, number, hops, accepted)
            hops.append({"host": host, "port": number, "user": user, "host_key": key})
        return hops

    def _confirm(
        self, host: str, port: int, jump: list[dict[str, Any]], accepted: list[str]
    ) -> str:
        """The host's key as one line, if it is among those accepted or a person says yes to it."""
        try:
            key = actions.scan(host=host, port=port, jump=jump)
        except NodeError as error:
            raise CommandError(f"{error.message} {error.advice}") from error
        self.stdout.write(f"{host}:{port} shows the {key.kind} key {key.fingerprint}")
        if not accepted:
            _ask()
        elif key.fingerprint not in accepted:
            raise CommandError(
                f"--fingerprint: that is not {' or '.join(accepted)}; nothing was added"
            )
        return key.line

    def _add_local(self, options: dict[str, Any]) -> None:
        self._tell(self._made(name=options["name"], transport=Node.Transport.LOCAL))

    def _made(self, **facts: Any) -> Node:
        try:
            return actions.add(actor=None, now=timezone.now(), **facts)
        except ValidationError as error:
            raise CommandError("; ".join(error.messages)) from error

    def _probe(self, options: dict[str, Any]) -> None:
        self._tell(actions.probe(node=_node(options["name"]), actor=None, now=timezone.now()))

    def _drain(self, options: dict[str, Any]) -> None:
        node = _node(options["name"])
        done = actions.drain(node=node, reason=options["reason"], actor=None, now=timezone.now())
        self.stdout.write(f"{node} is drained" if done else f"{node} was drained already")

    def _resume(self, options: dict[str, Any]) -> None:
        node = _node(options["name"])
        done = actions.resume(node=node, actor=None, now=timezone.now())
        self.stdout.write(f"{node} takes jobs again" if done else f"{node} was not drained")

    def _set(self, options: dict[str, Any]) -> None:
        given = {name: options[name] for name in ("features", "switches")}
        said: dict[str, Any] = {
            name: names(text) for name, text in given.items() if text is not None
        }
        checks = _checks(options)
        if not said and not checks:
            raise CommandError(
                "say --features, --switches, --mounts, --check-program or --guard-gpus"
            )
        nodes = [_node(name) for name in options["name"]]
        by: dict[str, Any] = {"nodes": nodes, "actor": None, "now": timezone.now()}
        try:
            with transaction.atomic():
                changed = describe(**by, **said) if said else []
                changed += set_checks(**by, **checks) if checks else []
        except ValidationError as error:
            raise CommandError("; ".join(_by_option(error))) from error
        self._tell_set(nodes, {node.pk for node in changed}, checks)

    def _tell_set(self, nodes: list[Node], changed: set[int], checks: dict[str, Any]) -> None:
        for node in nodes:
            if changed and node.pk not in changed:
                continue
            node.refresh_from_db()
            told = f"features {_or_none(node.features)}; switches {_or_none(node.switches)}"
            if checks:
                told += f"; mounts {_or_none(node.mounts)}; check {node.check_program or 'none'}"
                told += f"; guards its GPUs: {'yes' if node.guards_gpus else 'no'}"
            self.stdout.write(f"{node}: {told}{'' if changed else ', as it was'}")

    def _off(self, options: dict[str, Any]) -> None:
        node = _node(options["name"])
        try:
            ended = declare_off(node=node, actor=None, now=timezone.now())
        except NodeAnswers as error:
            raise CommandError(error.message) from error
        named = ", ".join(f"job {pk}" for pk in ended) or "no job"
        self.stdout.write(f"{node} is drained and counts as off; {named} was on it")

    def _remove(self, options: dict[str, Any]) -> None:
        node = _node(options["name"])
        try:
            actions.remove(node=node, actor=None, now=timezone.now())
        except actions.NodeBusy as busy:
            raise CommandError(busy.message) from busy
        self.stdout.write(f"{node} is removed")

    def _public_key(self, options: dict[str, Any]) -> None:
        self.stdout.write(actions.public_key())

    def _list(self, options: dict[str, Any]) -> None:
        found = listing.nodes()
        if options["json"]:
            self.stdout.write(json.dumps(found, cls=DjangoJSONEncoder, indent=1))
            return
        for node in found:
            free = sum(1 for gpu in node["gpus"] if not gpu["jobs"])
            state = "DRAINED" if node["drained"] else node["health"]
            marks = " (practice)" if node["simulated"] else ""
            self.stdout.write(
                f"{node['name']:<16} {state:<12} {free} of {len(node['gpus'])} GPUs free  "
                f"{node['address']}{marks}"
            )

    def _tell(self, node: Node) -> None:
        if node.problem:
            raise CommandError(f"{node} is added, but: {node.problem}")
        gpus = node.gpus.filter(present=True).count()
        self.stdout.write(
            f"{node}: {gpus} GPUs, {node.cpus} CPUs, {node.memory_mib // 1024} GiB of memory"
        )
        for note in node.notes:
            self.stdout.write(f"  note: {note}")


def _checks(options: dict[str, Any]) -> dict[str, Any]:
    """As `set_checks` takes them."""
    given = {name: options[name] for name in ("mounts", "check_program")}
    guard = options["guard_gpus"]
    given["guards_gpus"] = None if guard is None else guard == "yes"
    if given["mounts"] is not None:
        given["mounts"] = names(given["mounts"])
    return {name: value for name, value in given.items() if value is not None}


def _by_option(error: ValidationError) -> list[str]:
    found = error.message_dict.items()
    return [f"--{name.replace('_', '-')}: {' '.join(wrong)}" for name, wrong in found]


def _or_none(named: list[str]) -> str:
    return ", ".join(named) or "none"


def _ask() -> None:
    """Returns when somebody says yes. Raises `CommandError` else."""
    try:
        answer = input("Is that the machine's own key? [yes/no] ")
    except EOFError as error:
        raise CommandError(
            "nothing was added: nobody is there to answer. Compare the key with what the machine "
            "says at its console, then give it as --fingerprint SHA256:..."
        ) from error
    if answer.strip().lower() != "yes":
        raise CommandError("nothing was added")


def _node(name: str) -> Node:
    found = Node.objects.filter(name=name).first()
    if found is None:
        known = ", ".join(Node.objects.values_list("name", flat=True)) or "none yet"
        raise CommandError(f"there is no node {name!r}; there is: {known}")
    return found


def _partition(name: str | None) -> Partition | None:
    if name is None:
        return None
    found = Partition.objects.filter(name=name).first()
    if found is None:
        known = ", ".join(Partition.objects.values_list("name", flat=True)) or "none yet"
        raise CommandError(f"--partition: there is no {name!r}; there is: {known}")
    return found
