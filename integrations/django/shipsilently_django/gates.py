"""A gate: which flags a view asks for, and what is answered while they are not so."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from asgiref.sync import async_to_sync, sync_to_async
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpResponse
from django.shortcuts import redirect
from django.utils.module_loading import import_string

from .answers import check_status
from .exemptions import (
    catch_up,
    in_transactions,
    limit_exemptions,
    missed_checks,
    unite_transactions,
)
from .flags import RequestFlags, flags_of
from .options import is_async
from .pagecache import vary
from .readable import asked_of, is_on
from .surroundings import class_of

__all__ = ["Gate"]

View = Callable[..., Any]
#: What answers an ``OPTIONS`` with no more than what may be asked for. By their names, since
#: decorators keep those, and since the second need not be installed.
_TELL_VERBS = frozenset(
    {"django.views.generic.base.View.options", "rest_framework.views.APIView.options"}
)


class Gate:
    """Lets a request through while every flag is as it should be.

    Args:
        keys: The flags; ``"!x"`` asks for the opposite.
        value: What each has to be.
        status: The answer's status otherwise.
        redirect_to: A URL, a path or a URL's name to go to instead.
        fallback: A view to use instead, or its dotted path.

    Raises:
        ValueError: No flag, more than one way to answer, or a status that is no error's.
    """

    def __init__(
        self,
        keys: tuple[Any, ...],
        *,
        value: Any = True,
        status: int = 404,
        redirect_to: str | None = None,
        fallback: View | str | None = None,
    ) -> None:
        check_status(status)
        if not keys or not all(isinstance(key, str) and key.strip("!") for key in keys):
            raise ValueError("name at least one flag, as a string")
        if redirect_to is not None and fallback is not None:
            raise ValueError("give redirect_to or fallback, not both")
        if isinstance(fallback, staticmethod):
            # So a class body marks a plain function.
            fallback = fallback.__func__
        self._asked = [asked_of(key) for key in keys]
        self._value = value
        self._status = status
        self._redirect_to = redirect_to
        self._fallback = fallback

    def opens(self, flags: RequestFlags) -> bool:
        """Whether the request may pass."""
        return all(is_on(flags, key, self._value) is wanted for key, wanted in self._asked)

    async def aopens(self, flags: RequestFlags) -> bool:
        """`opens`, waiting in a task."""
        await flags.aload()
        return self.opens(flags)

    def refuse(self, request: Any, *args: Any, **kwargs: Any) -> Any:
        """The answer for a request that may not pass; raises what Django answers itself."""
        view = self._instead()
        if view is None:
            return self._answer(request)
        missed = missed_checks(request, view)
        if missed and (answer := catch_up(missed, request, view, args, kwargs)) is not None:
            return answer
        view = in_transactions(request, view)
        return (async_to_sync(view) if is_async(view) else view)(request, *args, **kwargs)

    async def arefuse(self, request: Any, *args: Any, **kwargs: Any) -> Any:
        """`refuse`, waiting in a task."""
        view = self._instead()
        if view is None:
            return self._answer(request)
        missed = missed_checks(request, view)
        if missed:
            # The user may have to be looked up.
            answer = await sync_to_async(catch_up)(missed, request, view, args, kwargs)
            if answer is not None:
                return answer
        return await _awaitable(in_transactions(request, view))(request, *args, **kwargs)

    def wrap(self, view: View, *, wants_async: bool = False) -> View:
        """A view that asks first, async if `view` is or if that is wanted.

        What a class of views does for a request is async where the class's methods are, which is
        known when it is called.

        A browser asks with ``OPTIONS``, and without cookies, whether it may send what its page
        wants to send; so that never meets a closed gate. A class of views answers it itself, by
        Django's way or that of Django REST framework. A function would answer with its page, as
        may a class with an ``options`` of its own: while its flags are not so, the gate does.
        """
        bound = _bound_to(view)
        behind = view if bound is None else bound
        wrapper: Any
        if is_async(view) or wants_async:
            awaitable = view if is_async(view) else sync_to_async(_each_in_transactions(view))

            @functools.wraps(view)
            async def gated_async(*args: Any, **kwargs: Any) -> Any:
                return await self._agated(awaitable, behind, args, kwargs)

            wrapper = gated_async
            if not is_async(view):
                unite_transactions(wrapper, self._known_instead())
        else:
            verb = getattr(view, "__name__", "")

            @functools.wraps(view)
            def gated(*args: Any, **kwargs: Any) -> Any:
                request, rest = _split(args)
                owner = args[0] if bound is None else bound
                if owner is not request and _is_awaited(owner, verb):
                    return self._agated(view, behind, args, kwargs)
                if _is_for_class(request, args, behind):
                    return view(*args, **kwargs)
                if self.opens(flags_of(request)):
                    return vary(request, view(*args, **kwargs))
                return vary(request, self.refuse(request, *rest, **kwargs))

            wrapper = gated
        if self._fallback is not None:
            limit_exemptions(wrapper, self._known_instead)
        return wrapper  # type: ignore[no-any-return]

    async def _agated(
        self, view: View, behind: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """What a view gives, awaited where that is wanted, or the answer instead."""
        request, rest = _split(args)
        is_for_class = _is_for_class(request, args, behind)
        if is_for_class or await self.aopens(flags_of(request)):
            response = view(*args, **kwargs)
            if inspect.isawaitable(response):
                response = await response
        else:
            response = await self.arefuse(request, *rest, **kwargs)
        return response if is_for_class else vary(request, response)

    def _instead(self) -> View | None:
        view = self._fallback
        if isinstance(view, str):
            view = self._fallback = import_string(view)
        if isinstance(view, type):
            view = self._fallback = view.as_view()  # type: ignore[attr-defined]  # a class of views
        return view

    def _known_instead(self) -> View | None:
        """The view to use instead; ``None`` of one that is only named, and not to be imported yet.

        What it is exempt from is not taken on trust.
        """
        return None if isinstance(self._fallback, str) else self._instead()

    def _answer(self, request: Any) -> HttpResponse:
        if request.method == "OPTIONS":
            return HttpResponse(status=204)
        if self._redirect_to is not None:
            return redirect(self._redirect_to)
        if self._status == 404:
            raise Http404
        if self._status == 403:
            raise PermissionDenied
        return HttpResponse(status=self._status)


def _awaitable(view: View) -> View:
    return view if is_async(view) else sync_to_async(view)


def _each_in_transactions(view: View) -> View:
    """A plain view behind an async one, within the transactions that it would have by itself."""

    def alone(request: Any, *args: Any, **kwargs: Any) -> Any:
        return in_transactions(request, view)(request, *args, **kwargs)

    return alone


def _bound_to(view: View) -> Any:
    """The view whose method this is; Django's `method_decorator` hides it in a partial."""
    method = view.func if isinstance(view, functools.partial) else view
    owner = getattr(method, "__self__", None)
    return owner if hasattr(owner, "http_method_names") else None


def _is_awaited(owner: Any, name: str) -> bool:
    """Whether Django awaits what this method gives, though it is a plain one."""
    return bool(getattr(owner, "view_is_async", False)) and (
        name == "dispatch" or name in owner.http_method_names
    )


def _is_for_class(request: Any, args: tuple[Any, ...], behind: Any) -> bool:
    """Whether this is an ``OPTIONS`` that a class of views will answer, with its page unseen.

    Args:
        request: What was asked.
        args: What the gate was called with: the request, or the class's object before it.
        behind: The view behind the gate, or the object whose method that is.
    """
    return request.method == "OPTIONS" and _tells_verbs(behind if args[0] is request else args[0])


def _tells_verbs(view: Any) -> bool:
    """Whether this is a class's view, or an object of the class, that tells what may be asked for.

    A class may show more where it has an ``options`` of its own, as `RedirectView` does.
    """
    # A viewset may answer by another of its methods.
    if "options" in (getattr(view, "actions", None) or ()):
        return False
    answers = getattr(class_of(view) or view, "options", None)
    name = f"{getattr(answers, '__module__', '')}.{getattr(answers, '__qualname__', '')}"
    return name in _TELL_VERBS


def _split(args: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
    """The request among a view's arguments, which is the second where the view is a method."""
    for place, argument in enumerate(args[:2]):
        if hasattr(argument, "META"):
            return argument, args[place + 1 :]
    raise TypeError("a view that asks for a flag must be called with a request")
