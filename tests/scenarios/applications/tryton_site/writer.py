"""Writes as the clients of Tryton do: parties, sales, shipments, invoices, purchases.

python writer.py, with ``TRYTOND_DATABASE_URI`` and ``DB_NAME`` set
"""

from __future__ import annotations

import datetime as dt
import random
from decimal import Decimal
from typing import Any

from proteus import Model
from proteus.config import set_trytond
from rounds import PASSING, sqlstate, write_rounds
from trytond.backend import DatabaseOperationalError
from trytond.pool import Pool
from trytond.transaction import Transaction

CONFIG = set_trytond()
CONFIG.skip_warning = True
_names = random.Random().randrange


def write(n: int) -> None:
    """One round: everything that can be done again before the transaction with its number."""
    customer = _party(n)
    sale = _sale(customer, n)
    if n % 2:
        _deliver(sale)
    if n % 3 == 0:
        _purchase(customer)
    if n % 4 == 0:
        _sequence(n)
    if n % 5 == 0:
        _forget()
    _undone(n)
    with Transaction().start(CONFIG.database_name, CONFIG.user, context=CONFIG.context):
        pool = Pool()
        Country, Party = pool.get("country.country"), pool.get("party.party")  # noqa: N806
        made = Country.create([{"name": f"round {n}", "code": None}])
        Party.write([Party(customer.id)], {"addresses": [("create", [{"country": made[0].id}])]})


def _party(n: int) -> Any:
    party = Model.get("party.party")(name=f"Pärty {n} \\ '")
    address = party.addresses[0] if party.addresses else party.addresses.new()
    address.street = "Street\n" * (1 + n % 4)
    party.contact_mechanisms.new(type="email", value=f"{n}@example.org")
    category = Model.get("party.category")(name=f"category {_names(1 << 60)}")
    category.save()
    party.categories.append(category)
    party.save()
    party.lang = Model.get("ir.lang").find([("code", "=", "en")])[0]
    party.save()
    return party


def _sale(customer: Any, n: int) -> Any:
    sale = Model.get("sale.sale")(party=customer)
    (sale.payment_term,) = Model.get("account.invoice.payment_term").find([], limit=1)
    sale.invoice_method = "order"
    (product,) = Model.get("product.product").find([], limit=1)
    for quantity in range(1, 2 + n % 3):
        line = sale.lines.new(product=product)
        line.quantity = float(quantity)
    sale.save()
    sale.click("quote")
    sale.click("confirm")
    if sale.state == "confirmed":
        sale.click("process")
    return sale


def _deliver(sale: Any) -> None:
    for shipment in sale.shipments:
        shipment.click("assign_force")
        for step in ("pick", "pack", "do"):
            shipment.click(step)
    for invoice in sale.invoices:
        invoice.invoice_date = dt.date.today()
        invoice.click("post")


def _purchase(supplier: Any) -> None:
    purchase = Model.get("purchase.purchase")(party=supplier)
    (purchase.payment_term,) = Model.get("account.invoice.payment_term").find([], limit=1)
    line = purchase.lines.new(quantity=2.0)
    (line.product,) = Model.get("product.product").find([], limit=1)
    line.unit_price = Decimal("1.2345")
    purchase.click("quote")
    purchase.click("confirm")
    if purchase.state == "confirmed":
        purchase.click("process")


def _sequence(n: int) -> None:
    """A row of the user's preferences, and one that is made and changed in place."""
    (kind,) = Model.get("ir.sequence.type").find([("name", "=", "Party")])
    sequence = Model.get("ir.sequence.strict")(name=f"strict {n}", sequence_type=kind)
    sequence.save()
    sequence.number_next = n
    sequence.save()


def _forget() -> None:
    """Deletes what nothing refers to."""
    for category in Model.get("party.category").find([], limit=3, order=[("id", "ASC")]):
        category.delete()


def _undone(n: int) -> None:
    """A transaction that leaves nothing but used numbers of sequences."""
    with Transaction().start(CONFIG.database_name, CONFIG.user, context=CONFIG.context) as doing:
        Pool().get("party.party").create([{"name": f"nobody {n}"}])
        doing.rollback()


def confirmed(n: int) -> bool:
    """Whether the country that is named by the round is there."""
    with Transaction().start(CONFIG.database_name, 0, readonly=True):
        return bool(Pool().get("country.country").search([("name", "=", f"round {n}")]))


def passing(error: Exception) -> bool:
    """Whether the database was not there, or refused writes."""
    return isinstance(error, DatabaseOperationalError) or sqlstate(error) in PASSING


if __name__ == "__main__":
    write_rounds(write, confirmed, passing)
