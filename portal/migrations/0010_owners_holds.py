"""A hold of a job's owner is remembered beside one of an administrator."""

from django.db import migrations, models


def remember(apps, schema_editor):
    jobs = apps.get_model("portal", "Job").objects.using(schema_editor.connection.alias)
    owners = jobs.filter(state="PENDING", held=True, held_by_admin=False)
    owners.exclude(reason="JobHeldLaunchFailure").update(held_by_owner=True)


class Migration(migrations.Migration):
    dependencies = [
        ("portal", "0009_admin_holds"),
    ]

    operations = [
        migrations.AddField(
            model_name="job",
            name="held_by_owner",
            field=models.BooleanField(default=False),
        ),
        migrations.RunPython(remember, migrations.RunPython.noop, elidable=True),
        migrations.AddConstraint(
            model_name="job",
            constraint=models.CheckConstraint(
                condition=models.Q(("held", True), ("held_by_owner", False), _connector="OR"),
                name="held_if_held_by_owner",
            ),
        ),
    ]
