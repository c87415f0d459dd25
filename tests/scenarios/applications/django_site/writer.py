"""Writes through Django's ORM, as the site's users do.

python writer.py
"""

from __future__ import annotations

import contextlib
import datetime as dt
import random
from decimal import Decimal

import django

django.setup()

from django.contrib.admin.models import CHANGE, LogEntry  # noqa: E402
from django.contrib.auth.models import Group, Permission, User  # noqa: E402
from django.contrib.contenttypes.models import ContentType  # noqa: E402
from django.contrib.flatpages.models import FlatPage  # noqa: E402
from django.contrib.sessions.backends.db import SessionStore  # noqa: E402
from django.contrib.sites.models import Site  # noqa: E402
from django.db import InterfaceError, OperationalError, connection, transaction  # noqa: E402
from django.db.models import F  # noqa: E402
from django.db.utils import Error, IntegrityError  # noqa: E402
from django.utils import timezone  # noqa: E402
from rounds import PASSING, sqlstate, write_rounds  # noqa: E402
from shop.models import Line, Order, Product, Round  # noqa: E402
from wagtail.models import Collection, Page  # noqa: E402

_chance = random.Random(7)
_names = random.Random().randrange


class _Undone(Exception):
    """Ends a transaction that is to be rolled back."""


def write(n: int) -> None:
    """One round: everything that can be done again before the transaction with its number."""
    tag = f"{n}-{_names(1 << 40):x}"
    user = _people(tag, n)
    _pages(tag, n)
    if n % 3 == 0:
        _wagtail(tag, n)
    if n % 4 == 0:
        _nothing(tag)
    products = _products(tag, n)
    with transaction.atomic():
        Round.objects.create(n=n)
        order = Order.objects.create(
            number=_names(1 << 60), customer=user, state="open", address=f"10.0.{n % 250}.1"
        )
        lines = [Line(order=order, product=p, quantity=1 + n % 5) for p in products]
        Line.objects.bulk_create(lines)
        with contextlib.suppress(IntegrityError), transaction.atomic():
            Order.objects.create(number=order.number, customer=user)
        Line.objects.filter(order=order).update(quantity=F("quantity") + 1)
        # The unique constraint is deferred: two lines change their products.
        with transaction.atomic():
            first, second = lines[:2]
            for line, product in ((first, second.product), (second, first.product)):
                Line.objects.filter(pk=line.pk).update(product=product)


def _people(tag: str, n: int) -> User:
    with transaction.atomic():
        user = User.objects.create_user(f"user {tag}", f"{n}@example.org")
        group, _ = Group.objects.get_or_create(name=f"group {n % 17}")
        kind = ContentType.objects.get_for_model(User)
        permission, _ = Permission.objects.get_or_create(
            codename=f"may_{n % 23}", content_type=kind, defaults={"name": f"May {n % 23}"}
        )
        group.permissions.add(permission)
        user.groups.set([group])
        user.user_permissions.set(Permission.objects.order_by("?")[:3])
        LogEntry.objects.create(
            user=user, content_type=kind, object_id=str(user.pk), action_flag=CHANGE
        )
        session = SessionStore()
        session["user"] = user.pk
        session.save()
    with transaction.atomic():
        locked = User.objects.select_for_update().get(pk=user.pk)
        locked.last_name = "Ünïcode \\ ' \t\n" * (1 + n % 3)
        locked.last_login = timezone.now()
        locked.save()
        group.permissions.remove(permission)
        session["seen"] = n
        session.save()
    if n % 5 == 0:
        session.delete()
        # With all that refers to them.
        old = User.objects.filter(username__startswith="user ").order_by("pk")
        User.objects.filter(pk__in=list(old.values_list("pk", flat=True)[:2])).exclude(
            pk=user.pk
        ).delete()
    if n % 7 == 0:
        Group.objects.filter(name=f"group {(n + 5) % 17}").delete()
    return user


def _pages(tag: str, n: int) -> None:
    page = FlatPage.objects.create(url=f"/{tag}/", title=f"Page {n}", content="x" * (n % 3000))
    page.sites.add(Site.objects.get_current())
    FlatPage.objects.filter(pk=page.pk).update(content=F("title"))
    if n % 3 == 0:
        page.sites.clear()
        page.delete()


def _wagtail(tag: str, n: int) -> None:
    """A tree of pages: their paths change in raw SQL that goes over many rows."""
    with transaction.atomic():
        top = Page.objects.get(depth=2)
        page = top.add_child(instance=Page(title=f"Page {n}", slug=f"page-{tag}"))
        page.save_revision().publish()
        child = page.add_child(instance=Page(title="Child", slug="child"))
        page.title = f"Page {n}, changed"
        page.save_revision().publish()
        Collection.get_first_root_node().add_child(name=f"collection {tag}")
    with transaction.atomic():
        child = Page.objects.get(pk=child.pk)
        child.slug = f"moved-{tag}"
        child.save()
        child.move(Page.objects.get(depth=2), pos="last-child")
        if n % 2:
            Page.objects.get(pk=page.pk).delete()


def _nothing(tag: str) -> None:
    """A transaction that leaves nothing but used numbers of sequences."""
    with contextlib.suppress(_Undone), transaction.atomic():
        User.objects.create_user(f"nobody {tag}")
        Product.objects.update(name="no name")
        raise _Undone


def _products(tag: str, n: int) -> list[Product]:
    now = timezone.now()
    made = [
        Product(
            name=f"product {tag}",
            price=Decimal(_chance.randrange(100000)) / 100,
            labels=["a", None, "ä,\"'{}", str(n)][: 1 + n % 4] if n % 2 else [],
            details={"n": n, "deep": [1.50, None, {"ü": "\\"}]},
            picture=bytes(range(256)) if k else None,
            takes=dt.timedelta(days=n, microseconds=n) if k else None,
            offered=(now, now + dt.timedelta(hours=n)) if n % 3 else None,
        )
        for k in range(3)
    ]
    with transaction.atomic():
        Product.objects.bulk_create(made)
        made[0].related.add(made[1], made[2])
        made[1].details["more"] = [n]
        made[1].price += 1
        Product.objects.bulk_update(made[1:2], ["details", "price"])
        made[2].related.clear()
    return made


def passing(error: Exception) -> bool:
    """Whether the database was not there, or refused writes."""
    again = isinstance(error, (OperationalError, InterfaceError)) or (
        isinstance(error, Error) and sqlstate(error) in PASSING
    )
    if again:
        connection.close()
        ContentType.objects.clear_cache()
    return again


if __name__ == "__main__":
    write_rounds(write, lambda n: Round.objects.filter(n=n).exists(), passing)
