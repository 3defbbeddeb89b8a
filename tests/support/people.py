"""People who sign in at the admin."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import Permission, User

#: What a person needs to look at the desk without changing anything.
VIEW = ("view_deadletter",)


def staff(name: str, *codenames: str, **fields: Any) -> User:
    """Create a member of staff with these permissions of celeriac's."""
    person = User.objects.create_user(name, password="not used", is_staff=True, **fields)
    permissions = Permission.objects.filter(content_type__app_label="celeriac", codename__in=codenames)
    assert {p.codename for p in permissions} == set(codenames)
    person.user_permissions.set(permissions)
    return person
