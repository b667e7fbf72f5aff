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
        "A first read is 94 instructions of Python in one function: two or three look-ups, a look "
        "whether a test or a listener wants to know, one entry in the request's dictionary, and "
        "the event, which is a tuple, one reading of the clock and one append. In a process of "
        "its own that is 9 to 13 times `dict.get`, which reads one and the same entry again and "
        "again; here, where ten others have been at work just before, what each request has of "
        "its own is in no cache of the processor. How far ahead of LaunchDarkly that is depends "
        "on the processor as well: one on which its read takes 15 µs, and not 9, was what the "
        "goal was made for."
    ),
    "cached_request": (
        "Two thirds in Django and three quarters in Flask and FastAPI are the core's: looking up "
        "the evaluation, ten first reads and their events. In the midst of a request these take "
        "twice as long as in a loop of their own, since what the framework does in between takes "
        "their place in the processor's caches: of two look-ups in a row, the second takes less "
        "than half as long as the first. The integrations' own share, 3 to 4 µs, is what is there "
        "without a read (see `unread`), finding out whom for, and in Django and Flask one more "
        "call for each read: `request.flags` follows logins, and Flask's `flags` finds the "
        "request."
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
        "in Python. In Django the variable is half of it. In FastAPI a middleware that does "
        "nothing is an eighth, and about a quarter each are the variable, the object with its ten "
        "fields, and looking into the scope and its state, whether an app around has flags "
        "already."
    ),
    "templates": (
        "In Django a tag that does nothing is a sixth of it; the rest are three calls: to the "
        "request's flags, to their check whose they are, and to the core's. In Jinja a plain `{% "
        "if %}` looks up one name; a test that compares two numbers takes 1.3 times that, so "
        "nothing that asks anything can be had for 1.2. The tags of Flask, FastAPI and Django's "
        "Jinja are such tests. A third of what they take is the test's look-up and call, a third "
        "finding the request's flags (in Flask two context variables; in FastAPI the name "
        "`request` and its scope), a third the core's read. `flag(…)` goes through "
        "`Context.call`, which alone takes several times as long, whatever it calls."
    ),
    "depends": (
        "FastAPI's solving of one more dependency, of any shape, is half of it: a function or an "
        "object, with a connection or without, cached or not, differ by 0.3 µs. A quarter is the "
        "core's: the evaluation, awaited, and the first read. The middleware that `install` adds "
        "is a tenth; the rest is finding the request's flags and whom they are for."
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
        "counted. In processor time, of what flags add to a page, a fifth is the delivery of what "
        "was counted, in a thread of its own. The rest is in Django mostly the templates' tags, "
        "in Flask the context with the visitor's cookie. In FastAPI, taken apart in one process, "
        "a quarter of the request's own part is FastAPI's solving of one more dependency, two "
        "fifths are finding the flags, whom they are for, and the evaluation, and a third the "
        "reads: one with its reason, one as a set, one in the template. Its bare page takes 70 µs "
        "and 97 % of that leaves 2, where that dependency alone takes 7."
    ),
    "imports": (
        "The framework has not imported msgspec, which in Django and Flask brings along "
        "typing_extensions: two fifths of the time there, and three quarters of the memory that "
        "is allowed; in FastAPI a quarter, and a third. The rest are some forty modules, which "
        "every request needs, and of which none stands out; in Flask also what Jinja has for "
        "extensions. With a transport, h11 comes to that: half of the difference."
    ),
}
