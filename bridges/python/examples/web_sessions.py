#!/usr/bin/env python3
"""Web sessions that all worker processes of a host share: a WSGI application with a visit counter.

A session is an entry that ends when it was not used for half an hour. The cookie holds its random
name. Two requests of one browser at the same time do not lose each other's changes: a session is
written back only if nobody has changed it since, and else the request is done again.

    web_sessions.py --serve 8000        # then open http://127.0.0.1:8000/
"""

import json
import secrets
import sys
from http.cookies import SimpleCookie
from wsgiref.simple_server import make_server
from wsgiref.util import setup_testing_defaults

import mqkv

LIFETIME_S = 1800


class Session(dict):
    """What is known of one browser."""

    def __init__(self, name, data, version):
        super().__init__(data)
        self.name = name
        self.version = version  # None: it is not stored yet


class Sessions:
    """All sessions, as entries session:NAME."""

    def __init__(self, client):
        self.client = client

    def open(self, name):
        """The session of that name, or a new one."""
        if name:
            try:
                entry = self.client.entry(f"session:{name}")
                return Session(name, json.loads(entry.value), entry.version)
            except mqkv.NotFound:
                pass
        return Session(secrets.token_urlsafe(24), {}, None)

    def save(self, session):
        """Stores it for another half hour. mqkv.ConditionFailed: it was changed or ended."""
        condition = {"if_version": session.version} if session.version else {"if_absent": True}
        session.version = self.client.put(f"session:{session.name}", json.dumps(session),
                                          ttl=LIFETIME_S, **condition)


class Application:
    """Counts the visits of each browser."""

    def __init__(self, client):
        self.sessions = Sessions(client)

    def __call__(self, environ, start_response):
        cookies = SimpleCookie(environ.get("HTTP_COOKIE", ""))
        name = cookies["session"].value if "session" in cookies else None
        while True:
            session = self.sessions.open(name)
            session["visits"] = session.get("visits", 0) + 1
            try:
                self.sessions.save(session)
                break
            except mqkv.ConditionFailed:
                continue
        start_response("200 OK", [
            ("Content-Type", "text/plain"),
            ("Set-Cookie", f"session={session.name}; HttpOnly; Max-Age={LIFETIME_S}")])
        return [f"visit {session['visits']}\n".encode()]


def request(application, cookie=None):
    """What a browser with that cookie gets: the text and the cookie."""
    environ, headers = {}, []
    setup_testing_defaults(environ)
    if cookie:
        environ["HTTP_COOKIE"] = cookie
    body = b"".join(application(environ, lambda _, given: headers.extend(given)))
    return body.decode().strip(), dict(headers)["Set-Cookie"].partition(";")[0]


def main():
    """Three requests of one browser, one of another; or a server."""
    with mqkv.Client() as client:
        application = Application(client)
        if sys.argv[1:2] == ["--serve"]:
            make_server("127.0.0.1", int(sys.argv[2]), application).serve_forever()
        _, cookie = request(application)
        request(application, cookie)
        print("one browser:", request(application, cookie)[0])
        print("another:", request(application, "session=forged")[0])
        name = cookie.partition("=")[2]
        print("ends in half an hour:", 1700 < client.ttl(f"session:{name}") <= LIFETIME_S)


if __name__ == "__main__":
    main()
