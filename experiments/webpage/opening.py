"""The first page: what was learned, on what machine and when, and all studies at a glance."""

from collections import Counter

from webpage import markdown, peers, study
from webpage.markup import join, single, tag
from webpage.table import table

TITLE = "mqkv: the studies"
FACTS = (
    ("processor", lambda m: f"{m.get('cpus', '?')} CPUs: {m.get('cpu', '?')}"),
    ("virtualisation", lambda m: m.get("virtualisation", "?")),
    ("system", lambda m: f"{m.get('kernel', '?')}; {m.get('distribution', '?')}"),
    ("compiler", lambda m: f"{m.get('compiler', '?')}: {m.get('built_with', '?')}"),
    ("commit", lambda m: m.get("commit", "?")),
)


def section(learned, published, scaling, many_cpus, bench):
    """learned: Markdown, '' if nobody wrote it. published, scaling, many_cpus: lists of Measured.
    bench: Peers or None."""
    parts = [tag("h1", TITLE)]
    of_studies = [*published, *scaling, *many_cpus]
    first = next(filter(study.is_decided, of_studies), of_studies[0] if of_studies else None)
    if first or bench:
        parts.append(study.shown(first) if first else bench.picture())
    if learned:
        parts.append(markdown.render(learned, 1, None, "learned-"))
    measured = [*published, *scaling, *many_cpus, *([bench] if bench else [])]
    manifests = [one.manifest for one in measured]
    if published:
        parts.append(tag("h2", "The studies at a glance", id="glance"))
        parts += [_counted(published), _glance(published)]
    if scaling:
        parts += [tag("h2", "How it scales", id="scaling"), _scaling(scaling)]
    if many_cpus:
        parts.append(tag("h2", "On many CPUs", id="many-cpus"))
        parts += [_counted(many_cpus), _glance(many_cpus)]
    if bench:
        link = tag("a", peers.TITLE, href=f"#{peers.ANCHOR}")
        parts.append(tag("p", link, f": {bench.goals_met()}."))
    parts += [tag("h2", "Machine and date", id="machine"), _machine(manifests)]
    return tag("section", *parts, id="opening")


def _link(measured):
    return tag("a", measured.name, href=f"#{study.anchor(measured)}")


def _counted(studies):
    """What the verdicts below mean, and how many there are of each."""
    found = Counter(outcome for one in studies for outcome in _together(one))
    if not found:
        return None
    told = [f"{found[key]} {words}" for key, words in study.VERDICTS.items() if found[key]]
    why = (
        " Undecided is no result. A claim may ask for more than the largest step, such as each step"
        " of a curve, or its peak; where the intervals of what it asks for overlap, nothing is"
        " decided, however large another step is. Runs of seconds, three to five a point, have wide"
        " intervals; more and longer ones decide more (make experiments PROFILE=full)."
    )
    counts = f"Of {len(studies)} studies, each of whose claims counts: {', '.join(told)}."
    return tag("p", counts, why if found["open"] else None)


def _together(measured):
    """The outcomes of a study, each once: those of its series and claims may differ."""
    return dict.fromkeys(outcome for _, outcome in measured.outcomes())


def _verdict(measured):
    """The badges, and why nothing is decided where that is the answer."""
    why = measured.why_undecided() if set(_together(measured)) == {"open"} else ""
    return join([study.verdict_badges(measured), tag("div", why, class_="why") if why else None])


def _glance(studies):
    body = [
        [
            join([tag("strong", _link(one)), single("br"), one.question]),
            one.claim or "–",
            _verdict(one),
            study.key_ratio(one) or "–",
            one.profile_text(),
        ]
        for one in studies
    ]
    return table(["study", "claim", "here", "largest step", "profile"], body, "cards")


def _scaling(studies):
    body = [
        [
            join([tag("strong", _link(one)), single("br"), one.question]),
            study.key_ratio(one) or "–",
            one.profile_text(),
        ]
        for one in studies
    ]
    return table(["study", "largest step", "profile"], body, "cards")


def _machine(manifests):
    """One line for what is the same everywhere; all values of what is not."""
    body = []
    for name, tell in FACTS:
        told = dict.fromkeys(str(tell(manifest)) for manifest in manifests)
        body.append([name, "; ".join(told)])
    begun = [str(m["started_utc"]) for m in manifests if m.get("started_utc")]
    ended = [str(m["finished_utc"]) for m in manifests if m.get("finished_utc")]
    if begun:
        body.append(["measured", f"{min(begun)} to {max(ended + begun)}"])
    profiles = dict.fromkeys(str((m.get("profile") or {}).get("name", "?")) for m in manifests)
    body.append(["profile", ", ".join(profiles)])
    return table(["", ""], body, "facts")
