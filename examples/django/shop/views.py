"""The shop's pages."""

from django.http import HttpResponse
from django.shortcuts import render
from shipsilently_django import FlagsRequest, requires_flag


def home(request: FlagsRequest) -> HttpResponse:
    """The basket, whose checkout is the old one or the new one."""
    return render(
        request, "shop/home.html", {"detail": request.flags.detail("new-checkout", False)}
    )


@requires_flag("new-checkout")
def pay(request: FlagsRequest) -> HttpResponse:
    """A page that does not exist for those who have the old checkout."""
    return render(request, "shop/pay.html")


def address(request: FlagsRequest) -> HttpResponse:
    """The first step of the old checkout."""
    return render(request, "shop/address.html")


async def receipt(request: FlagsRequest) -> HttpResponse:
    """An async page: it awaits once, and its template reads from memory."""
    await request.flags.aevaluate_all()
    user = await request.auser()
    return render(request, "shop/receipt.html", {"user": user})


def delivery(request: FlagsRequest) -> HttpResponse:
    """A rollout: half of all visitors find free delivery, and find it again tomorrow."""
    return render(request, "shop/delivery.html")
