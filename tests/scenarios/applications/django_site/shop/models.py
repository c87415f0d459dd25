"""A shop with the kinds of columns and keys that Django knows on PostgreSQL."""

from __future__ import annotations

import uuid
from typing import ClassVar

from django.contrib.auth.models import User
from django.contrib.postgres.fields import ArrayField, DateTimeRangeField
from django.contrib.postgres.indexes import GinIndex
from django.db import models
from django.db.models import F, Q


class Product(models.Model):
    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    name = models.CharField(max_length=100)
    price = models.DecimalField(max_digits=12, decimal_places=2)
    tax = models.GeneratedField(
        expression=F("price") * models.Value(0.25, models.DecimalField(decimal_places=2)),
        output_field=models.DecimalField(max_digits=14, decimal_places=4),
        db_persist=True,
    )
    labels = ArrayField(models.CharField(max_length=30), default=list)
    details = models.JSONField(default=dict)
    picture = models.BinaryField(null=True)
    takes = models.DurationField(null=True)
    offered = DateTimeRangeField(null=True)
    related = models.ManyToManyField("self")

    class Meta:
        indexes: ClassVar = [GinIndex(fields=["labels"]), GinIndex(fields=["details"])]
        constraints: ClassVar = [
            models.CheckConstraint(condition=Q(price__gte=0), name="price_not_negative")
        ]


class Order(models.Model):
    number = models.BigIntegerField(unique=True)
    customer = models.ForeignKey(User, on_delete=models.CASCADE)
    at = models.DateTimeField(auto_now_add=True)
    changed = models.DateTimeField(auto_now=True)
    state = models.CharField(max_length=10, default="new", db_index=True)
    address = models.GenericIPAddressField(null=True)
    products = models.ManyToManyField(Product, through="Line")

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["customer"], condition=Q(state="open"), name="one_open_order"
            )
        ]


class Line(models.Model):
    order = models.ForeignKey(Order, on_delete=models.CASCADE)
    product = models.ForeignKey(Product, on_delete=models.PROTECT)
    quantity = models.PositiveIntegerField(default=1)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["order", "product"],
                name="once_per_order",
                deferrable=models.Deferrable.DEFERRED,
            )
        ]


class Round(models.Model):
    """What the writer was promised: a row for each of its rounds."""

    n = models.BigIntegerField(primary_key=True)
