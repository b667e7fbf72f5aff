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
        "A first read is some fifty instructions of Python in one function: three or four "
        "look-ups, a look whether a test or a listener wants to know, and one entry in the "
        "request's dictionary, from which the event is made when it is delivered. How far ahead of "
        "LaunchDarkly that is depends on the processor as well."
    ),
    "cached_request": (
        "By itself the core does all of this within half of the goal: see its row, in a loop of "
        "its own. In the midst of a request each step is taken as if for the first time, since "
        "what the framework does in between takes its place in the processor's caches. So an "
        "instruction of Python, which takes 3 to 4 ns in a loop, takes the frameworks 6 to 11 "
        "there, with all that it calls: see the rows of the bare apps. It takes ours 6 to 8, "
        "about as much as theirs; the first read alone takes 10 to 15 for each, and each of the "
        "nine others a fifth to two fifths of a microsecond. What ours costs, then, is how many "
        "instructions it has: some 940 to 1,500, where 6 µs have room for 750 to 1,000. The least "
        "of a client whose reads are counted is measured beside it: with no bound and no age to "
        "what is held, blind to forks, tests, logins and listeners, and with nothing to fall back "
        "on, it has 510 to 690, and takes half of the goal, and two thirds of it in FastAPI and "
        "in Flask, where each read finds them anew. What lies between is what minds all of these. "
        "In FastAPI a request with one read has 380: the middleware is a quarter of them, finding "
        "the request's flags and for whom they are a third, seeing that what is held is of this "
        "process, current and used last an eighth, noting it for delivery a tenth, and the read "
        "itself a fifth. In Flask finding the flags and for whom is more than half. Some were "
        "taken out or put together one by one to see what that gains: four of each read's 52 "
        "change nothing that can be measured. Compiled to C as it is (see `compiled`), ours takes "
        "a fifth to a quarter less: so much is the interpreter's part, and without it FastAPI is "
        "within the goal, and Django under WSGI at it. In Django under ASGI and in Flask the "
        "rest, the calls, objects and locks, is still more: three coroutines there, and here the "
        "way from `flags` to the request's, taken at each read."
    ),
    "all_flags": (
        "The least of a client that holds each user's flags until there is news, in a process "
        "that may fork, is measured beside it, and takes 1.4 times the copy. What ours takes "
        "beyond that, less than a third of a microsecond whatever the number of flags, is a call "
        "each to find the evaluation and to copy it, noting who was here last, and what the "
        "object needs for all else that may be asked of it: a test may override, somebody may log "
        "in, a refresh may come, and what is read counts. That is the goal, within what runs "
        "differ by."
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
        "A middleware in Python that sets a context variable and an attribute, and takes the "
        "variable back, is measured beside it. In Django ours takes less than that, so where its "
        "goal is missed by a tenth of a microsecond, that is what runs differ by. In FastAPI it is "
        "most of it; the rest is the flags' object with its fifteen fields, by which they follow "
        "logins, and looking whether there is an app around, which may have flags already. "
        "Compiled to C as it is (see `compiled`), that takes a third less, and is within the goal. "
        "Where only a place for the flags is kept, and they are made when one is read, the goal is "
        "met, but each request that reads one pays twice as much for it as the others save."
    ),
    "templates": (
        "In Django a tag that does nothing is a sixth of it; the rest are three calls: to the "
        "request's flags, to their check whose they are, and to the core's. In Jinja a plain `{% "
        "if %}` looks up one name. A test, which is the least that asks anything, takes 1.3 to 2 "
        "times that where it only compares two names, measured beside it, so nothing that asks "
        "can be had for 1.2. The tags of Flask, FastAPI and Django's Jinja are such tests. A "
        "third of what they take is the test's look-up and call, a third finding the request's "
        "flags (in Flask two context variables; in FastAPI the name `request` and its scope), a "
        "third the core's read. `flag(…)` goes through `Context.call`, which alone takes several "
        "times as long, whatever it calls."
    ),
    "depends": (
        "An empty dependency, measured beside it, is three fifths of it: FastAPI's solving of one "
        "more, of any shape; a function or an object, with a connection or without, cached or "
        "not, differ by 0.3 µs. By itself all that is ours, the dependency and the read, takes a "
        "ninth of the whole, as its row shows; in the midst of a request it takes three times as "
        "long (see `cached_request`). The rest is the middleware that `install` adds (see "
        "`unread`). That is the goal, within what runs differ by; compiled to C as it is (see "
        "`compiled`), it is well within."
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
        "The least that these flags can be is measured beside it: the visitor looked up, in Flask "
        "by a cookie, a dictionary asked, and what was read noted, with no age, no bound, no "
        "reasons, and delivered to nobody. That alone takes nearly all that the goal allows in "
        "Django, as much or more in Flask, and more in FastAPI, where one more dependency that "
        "does nothing already does. So next to nothing is left for whatever does more in Python. "
        "What ours takes beyond that is finding the evaluation and seeing that it is fresh, "
        "reasons, and having every read counted and delivered, in a thread of its own; all that "
        "as cold as in `cached_request`. A bare page takes 170 to 430 µs there, and 3 % of that "
        "is 5 to 13."
    ),
    "imports": (
        "The framework has not imported msgspec, which imports typing_extensions where that is "
        "installed, as it is with httpx before Python 3.13, and in FastAPI; what both take is "
        "measured beside it, and is more than half of the memory: without msgspec, ours is within "
        "all goals, and without typing_extensions, too. The rest are some thirty modules, of "
        "which none stands out. With the first client comes what evaluates, and with a transport "
        "h11: half of that difference."
    ),
}
