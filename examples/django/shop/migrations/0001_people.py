"""Two people to log in as, both with the password "demo": ada, who pays and is staff, and bob."""

from typing import ClassVar

from django.contrib.auth.hashers import make_password
from django.db import migrations


def add_people(apps, schema_editor):
    """Create them, and the group of those who pay."""
    user_model, group_model = apps.get_model("auth", "User"), apps.get_model("auth", "Group")
    pro, _ = group_model.objects.get_or_create(name="pro")
    for name in ("ada", "bob"):
        user, _ = user_model.objects.get_or_create(
            username=name, defaults={"password": make_password("demo")}
        )
        if name == "ada":
            user.is_staff = user.is_superuser = True
            user.save()
            user.groups.add(pro)


class Migration(migrations.Migration):
    """Data only."""

    dependencies: ClassVar = [("auth", "0012_alter_user_first_name_max_length")]
    operations: ClassVar = [migrations.RunPython(add_people, migrations.RunPython.noop)]
