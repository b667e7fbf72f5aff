"""The shop's addresses."""

from django.conf import settings
from django.contrib import admin
from django.contrib.auth.views import LoginView, LogoutView
from django.urls import path
from shipsilently_django import flag_switch, flagged_path
from shipsilently_django.admin_page import flags_page

from . import views

urlpatterns = [
    path("", views.home, name="home"),
    path("checkout/", flag_switch("new-checkout", on=views.pay, off=views.address)),
    path("pay/", views.pay, name="pay"),
    flagged_path("new-checkout", "receipt/", views.receipt, name="receipt"),
    path("delivery/", views.delivery, name="delivery"),
    path("login/", LoginView.as_view(), name="login"),
    path("logout/", LogoutView.as_view(), name="logout"),
    path("admin/flags/", flags_page, name="flags"),
    path("admin/", admin.site.urls),
]

if settings.TOOLBAR:
    from debug_toolbar.toolbar import debug_toolbar_urls

    urlpatterns += debug_toolbar_urls()
