"""What is known without the network, and what a caller is served of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from ._analytics import Analytics
from ._cache import Cache, Entry
from ._clock import Clock
from ._kinds import as_key, fits, translated, unshared
from ._notices import Notices
from ._overrides import overrides
from ._snapshot import Snapshot, result_of
from ._view import UNSET, StandIn, View, default_result, override_result
from .config import Config
from .context import THE_WHOLE, Context
from .signals import flag_evaluated
from .values import EvaluationResult, Failure, FailureReport, Source

if TYPE_CHECKING:
    from ._keeper import Keeper

__all__ = ["Knowledge"]

#: The share of the timeout for which one process keeps the others from asking for the same context.
_LEASE: Final = 0.25
#: Characters; so much of a flag's key, or of an attribute's name, is logged. They may come from
#: what somebody has sent.
_LONGEST_SHOWN: Final = 200


class Ages:
    """How old a value may be that is served as last known good.

    Args:
        most: Seconds; ``None`` for any age.
        per_flag: The same for single flags, by key.
    """

    def __init__(self, most: float | None, per_flag: Mapping[str, float]) -> None:
        self._most = float("inf") if most is None else most
        self._per_flag = per_flag
        self._least = min(self._most, *per_flag.values(), float("inf"))

    def allow_all(self, age: float) -> bool:
        """Whether any flag may be so old."""
        return age <= self._least

    def allow(self, key: str, age: float) -> bool:
        """Whether this flag may be so old."""
        return age <= self._per_flag.get(key, self._most)


class Knowledge:
    """Everything that is known of flags in this process, and how it is served.

    Args:
        config: The client's settings.
        clock: Time.
        rng: Gives a number in ``[0, 1)``.
        report: Called with each failure, outside every lock.
        dropped: Called with how many analytics events were lost, and why.
        evaluated: Called with what was served for a flag, where anybody listens to that.

    Attributes:
        defaults: Those that the configuration declares, by flag key.
        baseline: Whose flags stand in where nothing is known.
        cache: What is known of each context.
        notices: For the log.
        analytics: Counts the flags that are read.
        keeper: Looks after the store, where there is one.
    """

    def __init__(
        self,
        config: Config,
        clock: Clock,
        rng: Callable[[], float],
        report: Callable[[FailureReport], None],
        dropped: Callable[[int, str], None],
        evaluated: Callable[[EvaluationResult], None],
    ) -> None:
        self._config = config
        self.defaults: Mapping[str, Any] = config.defaults
        self._clock = clock
        self._report = report
        self._evaluated = evaluated
        self.baseline: Context = Context(config.baseline_context)
        self.cache: Cache = Cache(
            clock,
            max_contexts=config.max_contexts,
            max_age=config.max_age,
            fresh_for=config.polling_interval,
            pinned=self.baseline.key,
            serves=not config.disable_cache,
        )
        self.notices: Notices = Notices(clock)
        self.analytics: Analytics = Analytics(
            config.analytics,
            clock,
            rng,
            base_delay=config.retry.base_delay,
            notices=self.notices,
            dropped=dropped,
        )
        self.keeper: Keeper | None = None
        if config.store is not None:
            # Here, since most clients have no store.
            from ._keeper import Keeper
            from ._saved import Seal

            self.keeper = Keeper(
                config.store,
                Seal(config.api_key, config.api_url),
                self.cache,
                clock,
                rng,
                self.notices,
                report,
                baseline=self.baseline.key,
                lease=config.timeout * _LEASE,
            )
        self._bootstrap: tuple[StandIn, ...] = ()
        if config.bootstrap is not None:
            self._bootstrap = (StandIn(config.bootstrap, Source.BOOTSTRAP),)
        self._ages = Ages(config.max_stale, config.max_stale_per_flag)

    def renew(self) -> None:
        """In a forked child: new locks, and what is known kept."""
        for part in (self.cache, self.notices, self.analytics):
            part.renew()
        if self.keeper is not None:
            self.keeper.renew()

    # What a caller gives.

    def context(self, given: Context | Mapping[str, Any] | None) -> Context:
        """A caller's context, telling once of each attribute that cannot be sent."""
        context = Context.of(given)
        if context.dropped:
            self.tell_dropped(context)
        return context

    def tell_dropped(self, context: Context) -> None:
        """Warn once of each attribute of a caller's context that cannot be sent."""
        for dropped in context.dropped:
            name = dropped[:_LONGEST_SHOWN]
            if name.startswith(THE_WHOLE):
                self.notices.once(
                    f"context {name}",
                    "a context was left out as a whole: a %s cannot be read as a mapping",
                    name.removeprefix(THE_WHOLE),
                )
                continue
            self.notices.once(
                f"context {name}",
                "context attribute %r was left out: it must be a string, a finite number or a "
                "boolean",
                name,
            )

    def default(self, key: str, given: Any, otherwise: Any = None) -> Any:
        """The caller's default, else the declared one, else `otherwise`."""
        return self.defaults.get(key, otherwise) if given is UNSET else translated(given)

    # What is known.

    def entry(self, key: bytes) -> Entry | None:
        """What is known of a context, by this process or those before it."""
        entry = self.cache.get(key)
        if self.keeper is not None and (entry is None or not entry.snapshot.complete):
            entry = self.keeper.recall(key) or entry
        return entry

    def current(self, flags: Snapshot) -> View:
        """What fresh flags from the cache let a caller see."""
        return View(flags, (), self.defaults, Source.CACHE)

    def known(
        self, context: Context, failure: Failure | None = None, status: int | None = None
    ) -> View:
        """The context's last known good values, and what stands in for them."""
        entry = self.entry(context.key)
        own, age = None, None
        if entry is not None:
            own = entry.snapshot
            if failure is not None or not self.cache.is_fresh(entry):
                own, age = self._still_served(entry), self.cache.age(entry)
        stand_ins: tuple[StandIn, ...] = ()
        if own is None or not own.complete or failure is not None:
            stand_ins = self.stand_ins()
        return View(own, stand_ins, self.defaults, Source.CACHE, failure, status, age)

    def stand_ins(self) -> tuple[StandIn, ...]:
        """What serves anybody of whom nothing is known: the baseline, then what was shipped."""
        entry = self.cache.get(self.baseline.key)
        if entry is None:
            return self._bootstrap
        snapshot, age = entry.snapshot, None
        if not self.cache.is_fresh(entry):
            snapshot, age = self._still_served(entry), self.cache.age(entry)
        return (StandIn(snapshot, Source.BASELINE, age), *self._bootstrap)

    def _still_served(self, entry: Entry) -> Snapshot:
        """What of an entry is not older than it may be."""
        if self._ages.allow_all(self.cache.age(entry)):
            return entry.snapshot
        rows, left_out = {}, 0
        for key, row in entry.snapshot.rows.items():
            single = entry.singles.get(key)
            age = self.cache.age(entry) if single is None else self.cache.single_age(single)
            if self._ages.allow(key, age):
                rows[key] = row
            else:
                left_out += 1
        if not left_out:
            return entry.snapshot
        self.notices.warn(
            "max_stale",
            "%d last known good values are older than max_stale allows and are not served",
            left_out,
        )
        return Snapshot(rows, complete=False)

    # What a caller is served.

    def detail(self, view: View, key: str, default: Any) -> EvaluationResult:
        """One flag of a view, as a result; the default where nothing better fits."""
        found = view.find(key)
        if found is None:
            if view.failure is not None:
                return default_result(key, default, view.failure)
            self.tell_missing(key, None, asked=view.own is not None and view.own.complete)
            return default_result(key, default, Failure.NOT_FOUND)
        row, source, age = found
        if not fits(row.value, default):
            return self._mismatch(key, row.value, default)
        return result_of(key, row, source, fallback=view.failure is not None, age=age)

    def overridden(self, key: str, value: Any, default: Any) -> EvaluationResult:
        """What a test has set for this flag, held to the same types as any other value."""
        on_read = overrides.on_read
        if on_read is not None:
            on_read(key)
        if fits(value, default):
            return override_result(key, value)
        return self._mismatch(key, value, default)

    def tell(self, result: EvaluationResult) -> None:
        """Tell whoever listens of the check of a flag that is about to be served."""
        if flag_evaluated.receivers:
            self._evaluated(result)

    def count(self, view: View, result: EvaluationResult) -> None:
        """`tell` of a check, and count it here unless the service has."""
        self.tell(result)
        if not view.is_counted(result.flag_key):
            self.analytics.record(
                result.flag_key, unshared(result.value), result.reason, view.latency_ms
            )

    def report_mismatch(self, key: str, value: object, why: str) -> None:
        """Tell that a flag's value was not served, since its type is not the expected one."""
        message = f"flag {key!r} holds a {type(value).__name__} {why}"
        self.notices.warn(f"type {key} {why}", "%s; the default is served", message)
        self._report(FailureReport(Failure.TYPE_MISMATCH, None, key, message))

    def _mismatch(self, key: str, value: Any, default: Any) -> EvaluationResult:
        expected = type(default).__name__
        self.report_mismatch(key, value, f"but is read with a default of type {expected}")
        return default_result(key, default, Failure.TYPE_MISMATCH)

    def tell_missing(self, key: str, status: int | None, *, asked: bool = True) -> None:
        """Tell that a default was served, since nothing is known of a flag.

        Args:
            key: The flag.
            status: The HTTP status that said so.
            asked: Whether the service has been asked; otherwise it may know the flag.
        """
        shown = f"flag {as_key(key)!r:.{_LONGEST_SHOWN}}"
        message = f"the service knows no {shown}"
        if not asked:
            message = f"nothing is known of {shown} yet"
        self.notices.once(message, "%s; the default is served", message)
        self._report(FailureReport(Failure.NOT_FOUND, status, as_key(key), message))
