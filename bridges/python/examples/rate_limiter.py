#!/usr/bin/env python3
"""A rate limiter that all processes of a host share: so many events in each span of time.

One operation decides and counts: `add` with a bound. An event that is refused changes nothing, and
the counter ends with its span.
"""

import time

import mqkv


class RateLimiter:
    """At most `events` in every span of `seconds`, for each name."""

    def __init__(self, client, events, seconds):
        self.client = client
        self.events = events
        self.seconds = seconds

    def allows(self, name):
        """Counts an event of that name, if there is room for it; tells whether."""
        span = int(time.time() / self.seconds)
        try:
            self.client.add(f"rate:{name}:{span}", 1, max=self.events, ttl=2 * self.seconds)
        except mqkv.OutOfBounds:
            return False
        return True

    def left(self, name):
        """How many events there is still room for."""
        span = int(time.time() / self.seconds)
        return self.events - int(self.client.get(f"rate:{name}:{span}", b"0"))


def main():
    """Ten requests of one client, one of another."""
    with mqkv.Client() as client:
        limiter = RateLimiter(client, events=5, seconds=3600)
        answers = [limiter.allows("10.0.0.1") for _ in range(10)]
        print("allowed:", sum(answers), "refused:", answers.count(False))
        print("the other client:", limiter.allows("10.0.0.2"), limiter.left("10.0.0.2"))


if __name__ == "__main__":
    main()
