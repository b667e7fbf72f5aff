"""Whom a request's flags are evaluated for."""

from __future__ import annotations

from asyncio import _get_running_loop
from collections.abc import Awaitable
from typing import Any

from asgiref.sync import async_to_sync, sync_to_async
from django.apps import apps
from django.contrib.auth import get_user_model
from django.core.exceptions import ObjectDoesNotExist, SynchronousOnlyOperation
from django.http import HttpRequest
from django.utils.functional import LazyObject, empty

from shipsilently_core import Context

from .options import Attribute, Options
from .setup import get_client, get_setup
from .visitors import aid_of_visitor, id_of_visitor

__all__ = ["adefault_context", "default_context"]

Attributes = dict[str, Any]


def default_context(request: HttpRequest) -> Attributes:
    """The context without a hook of your own; also for use in one.

    For an authenticated user: the pk as ``userId``, where there is one, and what ``ATTRIBUTES``
    names. For an anonymous visitor, who costs no query: nothing, or the id that ``ANONYMOUS_ID``
    asks for.
    """
    return _default(request, get_setup().options) or {}


async def adefault_context(request: HttpRequest) -> Attributes:
    """`default_context`, waiting in a task."""
    return await _adefault(request, get_setup().options) or {}


def _default(request: HttpRequest, options: Options, user: Any = None) -> Attributes | None:
    """The default context; ``None`` for nobody in particular.

    Args:
        request: Whose user it is for.
        options: Say what is told.
        user: The user, where the caller has looked: another thread may put others there meanwhile.
    """
    if user is None:
        user = getattr(request, "user", None)
    if user is not None and user.is_authenticated:
        return attributes_of(user, options)
    if options.anonymous_id is None:
        return None
    return attributes_of_visitor(id_of_visitor(request, options))


async def _adefault(request: HttpRequest, options: Options, user: Any = None) -> Attributes | None:
    if user is None:
        user = getattr(request, "user", None)
    # Else somebody has put a user here: a login during this request, or a token's owner.
    if isinstance(user, LazyObject) and user._wrapped is empty:
        find = getattr(request, "auser", None)
        # Django's way to find the session's user says nothing of a user whom the site finds.
        if find is not None and (is_of_session(user) or not _is_djangos(find)):
            user = await find()
        if isinstance(user, LazyObject) and user._wrapped is empty:
            await sync_to_async(user._setup)()
    if user is None or not user.is_authenticated:
        if options.anonymous_id is None:
            return None
        return attributes_of_visitor(await aid_of_visitor(request, options))
    try:
        return attributes_of(user, options)
    except SynchronousOnlyOperation:
        # An attribute is behind a query.
        return await sync_to_async(attributes_of)(user, options)


def is_of_session(user: LazyObject[Any]) -> bool:
    """Whether a user is the one that `AuthenticationMiddleware` finds, known already or not."""
    return _is_djangos(vars(user).get("_setupfunc"))


def _is_djangos(function: Any) -> bool:
    """Whether this is a function of Django's authentication, or one with arguments filled in."""
    module: str = getattr(getattr(function, "func", function), "__module__", None) or ""
    return module in ("django.contrib.auth", "django.contrib.auth.middleware")


def attributes_of(user: Any, options: Options) -> Attributes:
    """What the service is told of a user."""
    # One that is in no database, as that of a service, has none: they are not all the same.
    found: Attributes = {} if user.pk is None else {"userId": str(user.pk)}
    for attribute in options.attributes:
        found[attribute.name] = _value(user, attribute)
    return found


def attributes_of_visitor(visitor: str | None) -> Attributes:
    """What the service is told of somebody who is not logged in."""
    return {} if visitor is None else {"userId": visitor, "anonymous": True}


def _value(user: Any, attribute: Attribute) -> Any:
    """The attribute as a template would read it; ``None`` where there is none."""
    value = user
    try:
        for part in attribute.path:
            value = getattr(value, part, None)
            if callable(value) and not getattr(value, "do_not_call_in_templates", False):
                value = None if getattr(value, "alters_data", False) else value()
    except SynchronousOnlyOperation:
        raise
    except ObjectDoesNotExist:
        return None
    except Exception as error:
        # This one is lost; that the rest is known counts for more.
        get_client().evaluator.notices.warn(
            f"django attribute {attribute.name}",
            "attribute %r of the user could not be read (%s) and was left out",
            attribute.name,
            type(error).__name__,
        )
        return None
    return value


def context_of(request: HttpRequest, options: Options, user: Any = None) -> Any:
    """The request's context, by the hook where there is one.

    Args:
        request: Whom for.
        options: Name the hook, or say what is told.
        user: The request's, where the caller has looked; a hook looks by itself.

    Raises:
        SynchronousOnlyOperation: It takes a query or an async hook, and this is a coroutine.
    """
    hook = options.context
    if hook is None:
        return _default(request, options, user)
    if not options.context_is_async:
        return hook(request)
    if on_event_loop():
        raise SynchronousOnlyOperation("the CONTEXT hook is async")
    return async_to_sync(hook)(request)


def acontext_of(request: HttpRequest, options: Options, user: Any = None) -> Awaitable[Any]:
    """`context_of`, to be awaited in a task; a plain hook runs in a thread."""
    hook = options.context
    # No coroutine around another: each costs a tenth of what all the rest does.
    if hook is None:
        return _adefault(request, options, user)
    return (hook if options.context_is_async else sync_to_async(hook))(request)


class UnknownUserError(LookupError):
    """There is no user of that name."""


def find_user(name: str | None) -> Any:
    """The user who logs in with this name; without a name, one who is not logged in.

    Raises:
        UnknownUserError: There is none.
    """
    if name is None:
        if not apps.is_installed("django.contrib.auth"):
            return None
        from django.contrib.auth.models import AnonymousUser

        return AnonymousUser()
    model = get_user_model()
    try:
        return model._default_manager.get_by_natural_key(name)
    except model.DoesNotExist:
        raise UnknownUserError(f"there is no user {name!r}") from None


def context_of_user(user: Any) -> Context:
    """The context that this site makes for a user, by its hook where it has one."""
    request = HttpRequest()
    request.path = request.path_info = "/"
    request.method = "GET"
    request.user = user

    async def auser() -> Any:
        return user

    request.auser = auser
    return Context.of(context_of(request, get_setup().options))


def on_event_loop() -> bool:
    """Whether this is a coroutine, where waiting would stop every other request."""
    # The public way raises an error outside of one, which takes ten times as long.
    return _get_running_loop() is not None
