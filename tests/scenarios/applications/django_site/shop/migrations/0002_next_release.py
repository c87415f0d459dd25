"""Columns of the shop's next release."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("shop", "0001_initial")]

    operations = [
        migrations.AddField(
            model_name="order",
            name="note",
            field=models.TextField(db_default="none"),
        ),
        migrations.AddField(
            model_name="product",
            name="stock",
            field=models.DecimalField(max_digits=12, decimal_places=3, null=True),
        ),
        migrations.AlterField(
            model_name="product",
            name="name",
            field=models.CharField(max_length=200),
        ),
        migrations.AlterField(
            model_name="line",
            name="quantity",
            field=models.PositiveBigIntegerField(default=1),
        ),
        migrations.AddIndex(
            model_name="order",
            index=models.Index(fields=["customer", "state"], name="orders_of_customer"),
        ),
        migrations.AddConstraint(
            model_name="product",
            constraint=models.CheckConstraint(
                condition=models.Q(("stock__gte", 0)), name="stock_not_negative"
            ),
        ),
    ]
