"""A hold of an administrator is told from one of the job's owner."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("portal", "0008_bounds"),
    ]

    operations = [
        migrations.AddField(
            model_name="job",
            name="held_by_admin",
            field=models.BooleanField(default=False),
        ),
        migrations.AddConstraint(
            model_name="job",
            constraint=models.CheckConstraint(
                condition=models.Q(("held", True), ("held_by_admin", False), _connector="OR"),
                name="held_if_held_by_admin",
            ),
        ),
    ]
