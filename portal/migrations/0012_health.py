"""What is found wrong with nodes and GPUs, and what it takes out of service."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("portal", "0011_checkpoints"),
    ]

    operations = [
        migrations.AddField(
            model_name="gpu",
            name="out_of_service",
            field=models.BooleanField(default=False),
        ),
        migrations.AddField(
            model_name="node",
            name="check_program",
            field=models.CharField(blank=True, max_length=255),
        ),
        migrations.AddField(
            model_name="node",
            name="guards_gpus",
            field=models.BooleanField(default=False),
        ),
        migrations.AddField(
            model_name="node",
            name="mounts",
            field=models.JSONField(blank=True, default=list),
        ),
        migrations.CreateModel(
            name="Checkup",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("asked_at", models.DateTimeField(null=True)),
                ("answered_at", models.DateTimeField(null=True)),
                ("log_boot_id", models.CharField(blank=True, max_length=64)),
                ("log_stamp_us", models.BigIntegerField(default=0)),
                ("counters", models.JSONField(blank=True, default=dict)),
                ("suspects", models.JSONField(blank=True, default=list)),
                ("limits", models.JSONField(blank=True, default=list)),
                (
                    "node",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="checkup",
                        to="portal.node",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Finding",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("kind", models.CharField(max_length=32)),
                (
                    "severity",
                    models.CharField(
                        choices=[("note", "note"), ("warning", "warning"), ("serious", "serious")],
                        max_length=16,
                    ),
                ),
                (
                    "does",
                    models.CharField(
                        choices=[
                            ("tell", "tell"),
                            ("drain GPU", "drain GPU"),
                            ("drain node", "drain node"),
                        ],
                        max_length=16,
                    ),
                ),
                ("text", models.TextField(blank=True)),
                ("since", models.DateTimeField()),
                ("seen_at", models.DateTimeField()),
                ("absent", models.PositiveIntegerField(default=0)),
                ("drained", models.BooleanField(default=False)),
                ("cleared_at", models.DateTimeField(null=True)),
                (
                    "cleared_by",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "gpu",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="findings",
                        to="portal.gpu",
                    ),
                ),
                (
                    "node",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="findings",
                        to="portal.node",
                    ),
                ),
            ],
            options={
                "ordering": ["-id"],
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("cleared_at", None), ("gpu__isnull", False)),
                        fields=("gpu", "kind"),
                        name="one_open_finding_per_gpu_and_kind",
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(("cleared_at", None), ("gpu", None)),
                        fields=("node", "kind"),
                        name="one_open_finding_per_node_and_kind",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("cleared_at", None), ("drained", False), _connector="OR"
                        ),
                        name="drained_by_open_findings",
                    ),
                ],
            },
        ),
    ]
