"""The settings of a Django project with Wagtail and a shop of its own.

``APPLICATION_DB`` is a connection string of libpq.
"""

from __future__ import annotations

import os

from psycopg import conninfo

_parts = conninfo.conninfo_to_dict(os.environ["APPLICATION_DB"])

SECRET_KEY = "of a test"
USE_TZ = True
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
SITE_ID = 1
ROOT_URLCONF = "site_settings"
urlpatterns: list[object] = []
STATIC_URL = "/static/"
# No page is ever asked for: neither templates nor middleware.
SILENCED_SYSTEM_CHECKS = ["admin.E403", "admin.E408", "admin.E409", "admin.E410"]
WAGTAIL_SITE_NAME = "a test"
WAGTAILADMIN_BASE_URL = "http://localhost"

INSTALLED_APPS = [
    "shop",
    "wagtail.contrib.forms",
    "wagtail.contrib.redirects",
    "wagtail.embeds",
    "wagtail.sites",
    "wagtail.users",
    "wagtail.snippets",
    "wagtail.documents",
    "wagtail.images",
    "wagtail.search",
    "wagtail.admin",
    "wagtail",
    "modelcluster",
    "taggit",
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.sites",
    "django.contrib.flatpages",
    "django.contrib.postgres",
]

DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": _parts["dbname"],
        "USER": _parts["user"],
        "PASSWORD": _parts.get("password", ""),
        "HOST": _parts["host"],
        "PORT": _parts["port"],
        "OPTIONS": {"connect_timeout": 5},
    }
}
