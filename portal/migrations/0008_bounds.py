"""A limit of GPUs or GPU-hours has a largest value."""

from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import migrations, models

MAX_LIMIT = 10**9


def lower(apps, schema_editor):
    quotas = apps.get_model("portal", "Quota").objects.using(schema_editor.connection.alias)
    for name in ("gpus", "gpu_hours"):
        quotas.filter(**{f"{name}__gt": MAX_LIMIT}).update(**{name: MAX_LIMIT})


class Migration(migrations.Migration):
    dependencies = [
        ("portal", "0007_what_if"),
    ]

    operations = [
        migrations.AlterField(
            model_name="quota",
            name="gpu_hours",
            field=models.FloatField(
                blank=True,
                null=True,
                validators=[MinValueValidator(0), MaxValueValidator(MAX_LIMIT)],
            ),
        ),
        migrations.AlterField(
            model_name="quota",
            name="gpus",
            field=models.FloatField(
                blank=True,
                null=True,
                validators=[MinValueValidator(0), MaxValueValidator(MAX_LIMIT)],
            ),
        ),
        migrations.RunPython(lower, migrations.RunPython.noop, elidable=True),
    ]
