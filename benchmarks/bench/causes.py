"""Why a goal is missed where it is, and what would change that; printed for those that are."""

from __future__ import annotations

__all__ = ["CAUSES"]

#: By measurement.
CAUSES = {
    "reads": (
        "Beside the look-up, a read asks whether a test has overridden flags and compares the "
        "value's type with the default's; each is a few instructions of Python, and the call of a "
        "method with two arguments alone is about twice `dict.get`."
    ),
    "first_read": (
        "A first read makes an `EvaluationResult` that `get` throws away, asks four objects "
        "(view, kinds, count, analytics) by method calls, and keeps the key in a set; the event "
        "itself is one struct, one reading of the clock and one append."
    ),
    "cached_request": (
        "Ten first reads, plus finding out whom the request is for and looking that up. What a "
        "first read costs decides this."
    ),
    "all_flags": (
        "What is over the copy does not grow with it: the request's own object, the look at the "
        "process and the clock, and finding the user's evaluation take as long as copying a "
        "thousand entries."
    ),
    "decode": (
        "An answer like one before is not decoded as a whole: its bytes are compared, and the rows "
        "that differ are decoded and checked, each by a few calls in Python. Where nearly all "
        "differ, the whole is decoded, and every row checked in Python, which the fastest decoder "
        "does not do."
    ),
    "memory": (
        "Of each user the ten rows that differ are held, with their values: two thirds; the rest "
        "is the dictionary that holds them, the entry with its times, and the context itself."
    ),
    "unread": (
        "A middleware that sets a context variable and an attribute, and takes the variable back, "
        "in Python: in Django two calls around the app, of which one is Django's own, are a third "
        "of it, the variable another."
    ),
    "templates": (
        "In Django a tag that does nothing is a sixth of it; the rest are three calls: to the "
        "request's flags, to their check whose they are, and to the core's. In Jinja the limit is "
        "elsewhere: a plain `{% if %}` looks up one name, and one call of a C function from a "
        "template costs several times that, whatever it does. Flask's tag is a test of Jinja's, "
        "which avoids that call, and takes as long for all it does as the call alone; FastAPI's "
        "tag, and `flag(…)` everywhere, still pay for it."
    ),
    "depends": (
        "An async dependency that does nothing is a third of it; the rest is the context's own "
        "dependency, and the first read."
    ),
    "new_user": (
        "Of the call itself, which is most of it, about half is h11, which reads the answer's "
        "head. What is different in the answer is found and decoded in an eighth of the time."
    ),
    "crowd": (
        "The same as for one at a time: all 16 share one thread, in which what is done for one "
        "answer is a pause for the others."
    ),
    "throughput": (
        "Each page finds out for whom it is, reads two or three flags, and has every read "
        "counted. In processor time: a tenth of the difference in Django, and a fifth in Flask "
        "and FastAPI, is the delivery of what was counted, in a thread of its own. In Django and "
        "Flask the rest is the context, in Flask with the visitor's cookie, and the reads; in "
        "FastAPI half is FastAPI's own solving of three more dependencies, which it walks through "
        "anew wherever one is named, though each is called once. A machine that is busy shows "
        "more, as the service and wrk run on the same cores."
    ),
    "imports": (
        "The framework has not imported msgspec, which in Django and Flask brings along "
        "typing_extensions: two fifths of the time there, and three quarters of the memory that "
        "is allowed; in FastAPI a quarter, and a third. The rest are some forty modules, which "
        "every request needs, and of which none stands out; in Flask also what Jinja has for "
        "extensions. With a transport, h11 comes to that: half of the difference."
    ),
}
