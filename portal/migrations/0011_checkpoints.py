"""What keeps a checkpoint from being whole, how long it took to write, and whether it stays."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("portal", "0010_owners_holds"),
    ]

    operations = [
        migrations.AddField(
            model_name="checkpoint",
            name="problem",
            field=models.TextField(blank=True, default=""),
        ),
        migrations.AddField(
            model_name="checkpoint",
            name="write_s",
            field=models.FloatField(null=True),
        ),
        migrations.AddField(
            model_name="checkpoint",
            name="pinned",
            field=models.BooleanField(default=False),
        ),
    ]
