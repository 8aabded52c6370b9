from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("portal", "0004_preemption"),
    ]

    operations = [
        migrations.AddField(
            model_name="job",
            name="also",
            field=models.JSONField(default=list),
        ),
        migrations.AddField(
            model_name="partition",
            name="foretold_at",
            field=models.DateTimeField(editable=False, null=True),
        ),
        migrations.AddIndex(
            model_name="attempt",
            index=models.Index(fields=["ended_at"], name="attempt_by_end"),
        ),
    ]
