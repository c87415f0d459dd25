"""Fills a new Tryton database: a company with accounts, a fiscal year, a product to sell.

python prepare.py, with ``TRYTOND_DATABASE_URI`` and ``DB_NAME`` set
"""

from __future__ import annotations

from decimal import Decimal

from proteus import Model
from proteus.config import set_trytond
from trytond.modules.account.tests.tools import (
    create_chart,
    create_fiscalyear,
    create_tax,
    get_accounts,
)
from trytond.modules.account_invoice.tests.tools import (
    create_payment_term,
    set_fiscalyear_invoice_sequences,
)
from trytond.modules.company.tests.tools import create_company


def prepare() -> None:
    """What the sales of the writer refer to."""
    config = set_trytond()
    create_company(config=config)
    create_chart(config=config)
    set_fiscalyear_invoice_sequences(create_fiscalyear()).click("create_period")
    tax = create_tax(Decimal(".10"))
    tax.save()
    accounts = get_accounts()
    category = Model.get("product.category")(name="Accounts")
    category.accounting = True
    category.account_expense = accounts["expense"]
    category.account_revenue = accounts["revenue"]
    category.customer_taxes.append(tax)
    category.save()
    template = Model.get("product.template")(name="Product")
    (template.default_uom,) = Model.get("product.uom").find([("name", "=", "Unit")])
    template.type = "goods"
    template.salable = True
    template.purchasable = True
    template.list_price = Decimal("9.99")
    template.account_category = category
    template.save()
    create_payment_term().save()


if __name__ == "__main__":
    prepare()
