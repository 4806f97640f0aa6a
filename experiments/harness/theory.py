"""What queueing theory predicts for a point: [theory] of study.conf, drawn as a thin line.

    closed    clients C, servers M, service_us S, think_us Z: a closed network of C clients, M equal
              servers with exponential service and one queue (M/M/M//C, the machine repairman)
    balanced  clients C, servers D, service_us S: C clients, each at one of D single servers with a
              queue of its own, drawn anew each time (product form; mean value analysis)
    open      rate_per_s, servers M, service_us S: M/M/M; response times are the mean's. Nothing is
              predicted at saturation and above. With `arrivals = even` the operations come evenly
              spaced, not at random, as those of `clientk bench --rate` do: D/M/M

The keys are formulas over the columns of a point's means (harness.formula). `servers.SERIES` stands
for `servers` in one series. Sources: Lazowska, Zahorjan, Graham, Sevcik: Quantitative System
Performance (1984), chapters 5 to 7; Gross, Shortle, Thompson, Harris: Fundamentals of Queueing
Theory, chapter 2; for D/M/M the approximation of Allen and Cunneen (Allen: Probability, Statistics,
and Queueing Theory, 2nd edition, 1990, chapter 5): the wait of M/M/M times (ca2 + cs2) / 2, with
the squared coefficients of variation of arrivals and service times.
"""

from dataclasses import dataclass, field

from harness import HarnessError, formula

METRICS = ("ops_per_s", "mean_us")
KEYS = {
    "closed": ("clients", "servers", "service_us", "think_us"),
    "balanced": ("clients", "servers", "service_us"),
    "open": ("rate_per_s", "servers", "service_us"),
}
ARRIVALS = {"random": 1.0, "even": 0.0}  # of the open model -> ca2, their squared variation
SERVICE_VARIATION = 1.0  # cs2: service times are exponential in all models
EVEN_LABEL = "D/M/c (approximation)"
LEAST_SERVICE_US = 1.0  # below, an operation is its own work, of which the models know nothing


@dataclass
class Theory:
    model: str
    formulas: dict  # of KEYS[model]
    label: str
    source: str
    arrivals: str = "random"  # a key of ARRIVALS
    servers_of: dict = field(default_factory=dict)  # series -> formula instead of `servers`


def read(sections, series):
    """series: the names that `servers.SERIES` may have."""
    if not sections.has("theory"):
        return None
    model = sections.choice("theory", "model", tuple(KEYS), "closed")
    arrivals = "random"
    if model == "open":
        arrivals = sections.choice("theory", "arrivals", tuple(ARRIVALS), arrivals)
    servers_of = {name: sections.get("theory", f"servers.{name}", "") for name in series}
    formulas = {}
    for key in KEYS[model]:
        optional = key == "think_us"
        formulas[key] = (
            sections.get("theory", key, "0") if optional else sections.need("theory", key)
        )
    return Theory(
        model,
        formulas,
        sections.get("theory", "label", EVEN_LABEL if arrivals == "even" else "theory"),
        sections.need("theory", "source"),
        arrivals,
        {name: text for name, text in servers_of.items() if text},
    )


def predict(theory, means, series):
    """metric -> what the model says, over the means of a point of `series` (column -> number); {}
    where it says nothing."""
    formulas = theory.formulas
    if series in theory.servers_of:
        formulas = formulas | {"servers": theory.servers_of[series]}
    values = {key: formula.evaluate(text, means) for key, text in formulas.items()}
    service_s = values["service_us"] / 1e6
    servers = round(values["servers"])
    if values["service_us"] < LEAST_SERVICE_US or servers < 1:
        return {}
    if theory.model == "open":
        arrivals = ARRIVALS[theory.arrivals]
        return open_queue(values["rate_per_s"], servers, service_s, arrivals)
    clients = round(values["clients"])
    if clients < 1:
        raise HarnessError("[theory] clients: at least 1 is needed")
    if theory.model == "balanced":
        throughput = clients / (service_s * (1 + (clients - 1) / servers))
        return _closed(throughput, clients, 0.0)
    think_s = values["think_us"] / 1e6
    return _closed(closed_queue(clients, servers, service_s, think_s), clients, think_s)


def closed_queue(clients, servers, service_s, think_s):
    """Requests per second of a closed M/M/servers//clients: the birth-death chain over how many
    clients are at the servers."""
    if think_s == 0:
        return min(clients, servers) / service_s
    weights = [1.0]
    for waiting in range(clients):
        arrival = (clients - waiting) / think_s
        service = min(waiting + 1, servers) / service_s
        weights.append(weights[-1] * arrival / service)
    busy = sum(weight * min(k, servers) for k, weight in enumerate(weights)) / sum(weights)
    return busy / service_s


def open_queue(rate_per_s, servers, service_s, arrival_variation=ARRIVALS["random"]):
    """The mean response time of M/M/servers by Erlang C; of other arrivals than random ones by
    Allen and Cunneen."""
    offered = rate_per_s * service_s
    if offered >= servers or rate_per_s <= 0:
        return {}
    term = total = 1.0
    for k in range(1, servers):
        term *= offered / k
        total += term
    term *= offered / servers
    waits = term * servers / (servers - offered)
    probability = waits / (total + waits)
    wait_s = probability * service_s / (servers - offered)
    wait_s *= (arrival_variation + SERVICE_VARIATION) / 2
    return {"ops_per_s": rate_per_s, "mean_us": (wait_s + service_s) * 1e6}


def _closed(throughput, clients, think_s):
    return {"ops_per_s": throughput, "mean_us": (clients / throughput - think_s) * 1e6}
